// What a report says, part by part.

import { legend, lines, shares } from "./chart.js";
import { el } from "./dom.js";
import { number, percent, words } from "./format.js";
import { table } from "./table.js";

/** The main numbers. @param {any} report @returns {HTMLElement} */
export function tiles(report) {
  const half = (/** @type {number | null | undefined} */ value) => (value == null ? "" : ` ± ${number(value)}`);
  const bandwidth = report.bandwidth_gb_per_s.total;
  const latency = report.latency_ns;
  const tile = (/** @type {string} */ name, /** @type {string} */ value) =>
    el("div", { class: "cx-tile" }, el("dt", {}, name), el("dd", {}, value));
  return el(
    "dl",
    { class: "cx-tiles" },
    tile("bandwidth, GB/s", number(bandwidth) + half(report.ci95?.total_gb_per_s)),
    tile("mean latency, ns", number(latency.mean) + half(report.ci95?.latency_ns)),
    tile("p50, ns", number(latency.p50)),
    tile("p99, ns", number(latency.p99)),
    tile("p99.9, ns", number(latency.p999)),
    tile("requests", number(report.requests.completed)),
  );
}

/** Where the time of a request went. @param {any} report */
export function stages(report) {
  const parts = Object.entries(report.stages_ns)
    .filter(([, value]) => Number(value) > 0)
    .map(([name, value]) => /** @type {[string, number]} */ ([words(name), Number(value)]));
  parts.sort((a, b) => b[1] - a[1]);
  return shares("Where the mean latency goes", "ns", parts);
}

/** Share of requests up to a latency. @param {any} report */
export function histogram(report) {
  const bins = report.latency_histogram.filter((/** @type {[number, number]} */ bin) => bin[1] > 0);
  const whole = bins.reduce((/** @type {number} */ sum, /** @type {[number, number]} */ bin) => sum + bin[1], 0);
  const points = /** @type {[number, number][]} */ ([]);
  let sum = 0;
  for (const [bound, count] of bins) {
    points.push([bound, (100 * (sum += count)) / whole]);
  }
  return lines({ title: "Latency of served requests", x: "latency, ns", y: "requests up to it, %", series: [{ name: "requests", points }], steps: true });
}

/** Completed lines over time. @param {any} report */
export function overTime(report) {
  const { bin_ns: bin, reads, writes } = report.time_series;
  // The window may end within the last bin.
  const length = (/** @type {number} */ place) => Math.min(bin, report.window_ns - place * bin);
  const rate = (/** @type {number[]} */ counts) =>
    counts.flatMap((count, place) => {
      const long = length(place);
      return long < bin / 20 ? [] : [/** @type {[number, number]} */ ([(place * bin + long / 2) / 1e3, (64 * count) / long])];
    });
  const series = [
    { name: "reads", points: rate(reads) },
    { name: "writes", points: rate(writes) },
  ].filter((one) => one.points.some(([, value]) => value > 0));
  return lines({ title: "Completed lines over time", x: "time, us", y: "GB/s", series });
}

/** @param {any} report @param {(row: any) => void} [choose] */
export function links(report, choose) {
  const rows = [...report.links].sort((a, b) => b.utilization - a.utilization);
  return table(
    "Links, by direction",
    [
      { name: "link", of: (row) => row.direction },
      { name: "busy", of: (row) => row.utilization, share: true },
      { name: "payload", of: (row) => row.efficiency, share: true },
      { name: "GB/s", of: (row) => row.rate_gb_per_s * row.utilization * row.efficiency },
      { name: "wait, ns", of: (row) => row.wait_ns?.mean },
      { name: "for credits, ns", of: (row) => row.credit_wait_ns },
      { name: "retries", of: (row) => row.retries },
    ],
    rows,
    choose,
  );
}

/** @param {any} report @param {(row: any) => void} [choose] */
export function issuers(report, choose) {
  return table(
    "Hosts and accelerators",
    [
      { name: "host", of: (row) => row.name },
      { name: "GB/s", of: (row) => row.bandwidth_gb_per_s.total },
      { name: "mean, ns", of: (row) => row.latency_ns.mean },
      { name: "p50, ns", of: (row) => row.latency_ns.p50 },
      { name: "p99, ns", of: (row) => row.latency_ns.p99 },
      { name: "in flight", of: (row) => row.in_flight },
    ],
    [...report.hosts, ...(report.accelerators ?? [])],
    choose,
  );
}

/** @param {any} report @param {(row: any) => void} [choose] */
export function devices(report, choose) {
  return table(
    "Devices",
    [
      { name: "device", of: (row) => row.name },
      { name: "GB/s", of: (row) => row.bandwidth_gb_per_s.total },
      { name: "reads", of: (row) => row.reads },
      { name: "writes", of: (row) => row.writes },
      { name: "wait, ns", of: (row) => row.wait_ns?.mean },
      { name: "for medium, ns", of: (row) => row.medium_wait_ns },
    ],
    report.devices,
    choose,
  );
}

/** What limits the run, and what its author may not expect. @param {any} report */
export function notes(report) {
  const items = (report.notes ?? []).map((/** @type {any} */ note) =>
    el("li", {}, note.path ? el("code", {}, note.path) : null, note.path ? `: ${note.message}` : note.message),
  );
  return el(
    "div",
    { class: "cx-notes" },
    report.partial ? el("p", { class: "cx-partial" }, "Partial: the run was ended before its window was over.") : null,
    report.bottleneck ? el("p", {}, el("strong", {}, "Bottleneck: "), report.bottleneck.text) : null,
    items.length > 0 ? el("ul", {}, ...items) : null,
  );
}

/**
 * The slowest requests, each as the sum of its stages.
 * @param {any[]} slowest
 * @param {any} report
 */
export function waterfall(slowest, report) {
  if (slowest.length === 0) return el("p", { class: "cx-soft" }, "no request completed in the window");
  const names = [...new Set(slowest.flatMap((one) => Object.keys(one.stages_ps)))];
  const longest = slowest[0].latency_ps;
  const rows = slowest.slice(0, 40).map((one) => {
    const parts = names
      .filter((name) => one.stages_ps[name])
      .map((name) =>
        el("i", {
          class: `cx-fill-${names.indexOf(name) % 8}`,
          style: `width:${(100 * one.stages_ps[name]) / longest}%`,
          title: `${words(name)}: ${number(one.stages_ps[name] / 1e3)} ns`,
        }),
      );
    const text = names
      .filter((name) => one.stages_ps[name])
      .map((name) => `${words(name)} ${number(one.stages_ps[name] / 1e3)}`)
      .join(", ");
    const host = report.hosts[one.host]?.name ?? report.accelerators?.[one.host - report.hosts.length]?.name;
    const device = one.device == null ? "-" : (report.devices[one.device]?.name ?? one.device);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, `${host ?? one.host} ${one.write ? "to" : "from"} ${device}`),
      el("td", { class: "cx-number" }, number(one.issued_ps / 1e6)),
      el("td", { class: "cx-number" }, number(one.latency_ps / 1e3)),
      el("td", { class: "cx-fall" }, el("div", { "aria-hidden": "true" }, ...parts), el("span", { class: "cx-unseen" }, text)),
    );
  });
  const heads = ["request", "issued, us", "latency, ns", "stages"].map((name) => el("th", { scope: "col" }, name));
  return el(
    "div",
    { class: "cx-sheet" },
    el("h2", {}, "Slowest requests"),
    legend(names.map(words)),
    el(
      "div",
      { class: "cx-wide", tabindex: 0, role: "region", "aria-label": "Slowest requests" },
      el("table", { class: "cx-table" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)),
    ),
  );
}

/**
 * What a report says of links, hosts or devices by their names.
 * @param {any} report
 * @param {string[]} names
 */
export function details(report, names) {
  const found = [...report.links, ...report.hosts, ...(report.accelerators ?? []), ...report.devices].filter((part) =>
    names.includes(part.direction ?? part.name),
  );
  if (found.length === 0) return el("p", { class: "cx-soft" }, `${names.join(", ")}: the report has no numbers of it.`);
  return el("div", { class: "cx-details" }, ...found.map((part) => el("section", {}, el("h2", {}, part.direction ?? part.name), facts(part))));
}

/** @param {any} part */
function facts(part) {
  const rows = Object.entries(part).flatMap(([name, value]) => {
    if (name === "name" || name === "direction" || name === "ci95" || value == null) return [];
    if (typeof value !== "object") return [[words(name), name === "utilization" || name === "efficiency" ? percent(value) : plain(value)]];
    if (Array.isArray(value)) return [];
    return Object.entries(value).flatMap(([inner, one]) => (typeof one === "object" ? [] : [[`${words(name)}, ${words(inner)}`, plain(one)]]));
  });
  return el(
    "table",
    { class: "cx-table" },
    el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "cx-number" }, value)))),
  );
}

/** @param {any} value */
function plain(value) {
  return typeof value === "number" ? number(value) : String(value);
}
