// What a report says, part by part.

import { lines, shares } from "./chart.js";
import { el } from "./dom.js";
import { filtered } from "./filter.js";
import { cumulative, number, percent, withHalf, words } from "./format.js";
import { sheet, table } from "./table.js";

/** The main numbers. @param {any} report @returns {HTMLElement} */
export function tiles(report) {
  const bandwidth = report.bandwidth_gb_per_s.total;
  const latency = report.latency_ns;
  const tile = (/** @type {string} */ name, /** @type {string} */ value) =>
    el("div", { class: "cx-tile" }, el("dt", {}, name), el("dd", {}, value));
  return el(
    "dl",
    { class: "cx-tiles" },
    tile("bandwidth, GB/s", withHalf(bandwidth, report.ci95?.total_gb_per_s)),
    tile("mean latency, ns", withHalf(latency.mean, report.ci95?.latency_ns)),
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

/** Latency of requests: their share in each bin, or up to it. @param {any} report */
export function histogram(report) {
  const bins = report.latency_histogram.filter((/** @type {[number, number]} */ bin) => bin[1] > 0);
  if (bins.length === 0) return el("p", { class: "cx-soft" }, "no request completed in the window");
  const whole = bins.reduce((/** @type {number} */ sum, /** @type {[number, number]} */ bin) => sum + bin[1], 0);
  const { min, mean, p50, p99 } = report.latency_ns;
  const log = bins[bins.length - 1][0] > 4 * min;
  const edges = /** @type {[number, number]} */ ([bins[bins.length - 1][0], 0]);
  const inBins = bins.map((/** @type {[number, number]} */ bin, /** @type {number} */ place) =>
    [place > 0 ? bins[place - 1][0] : Math.min(min, bin[0]), (100 * bin[1]) / whole]);
  const common = { title: "Latency of served requests", x: "latency, ns", steps: true, log };
  const marks = /** @type {[string, number][]} */ ([["mean", mean], ["median", p50], ["99 %", p99]]);
  return choice("Form of the chart", [
    ["Histogram", () => lines({ ...common, y: "requests, %", filled: true, marks, series: [{ name: "requests", points: [...inBins, edges] }] })],
    ["Cumulative", () => lines({ ...common, y: "requests up to it, %", series: [{ name: "requests", points: cumulative(report.latency_histogram) }] })],
  ]);
}

/**
 * One of several forms of a part, chosen by buttons.
 * @param {string} title
 * @param {[string, () => HTMLElement][]} forms
 */
function choice(title, forms) {
  const place = el("div");
  const buttons = forms.map(([name], number) => el("button", { type: "button", click: () => choose(number) }, name));
  const choose = (/** @type {number} */ chosen) => {
    buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(number === chosen)));
    place.replaceChildren(forms[chosen][1]());
  };
  choose(0);
  return el("div", { class: "cx-choice" }, el("div", { role: "group", "aria-label": title }, ...buttons), place);
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

/** @param {any} report @param {(row: any) => void} [choose] @param {string} [title] */
export function links(report, choose, title = "Links, by direction") {
  const rows = [...report.links].sort((a, b) => b.utilization - a.utilization);
  return table(
    title,
    [
      { name: "link", of: (row) => row.direction },
      { name: "busy", of: (row) => row.utilization, share: true, bar: true, half: (row) => row.ci95?.utilization },
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
      { name: "requests", of: (row) => row.completed },
      { name: "GB/s", of: (row) => row.bandwidth_gb_per_s.total, half: (row) => row.ci95?.total_gb_per_s },
      { name: "mean, ns", of: (row) => row.latency_ns.mean, half: (row) => row.ci95?.latency_ns },
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
      { name: "GB/s", of: (row) => row.bandwidth_gb_per_s.total, half: (row) => row.ci95?.total_gb_per_s },
      { name: "reads", of: (row) => row.reads },
      { name: "writes", of: (row) => row.writes },
      { name: "wait, ns", of: (row) => row.wait_ns?.mean },
      { name: "for medium, ns", of: (row) => row.medium_wait_ns },
    ],
    report.devices,
    choose,
  );
}

/** Outputs and devices where messages wait, by the sum of their waits. @param {any} report */
export function waits(report) {
  const denied = (/** @type {any} */ device) => Object.values(device.denied ?? {}).reduce((sum, count) => sum + Number(count), 0);
  const rows = [
    ...report.links.map((/** @type {any} */ link) => ({ place: link.direction, messages: link.messages, wait: link.wait_ns, part: link.credit_wait_ns, of: "credits" })),
    ...report.devices.map((/** @type {any} */ device) => ({
      place: device.name, messages: device.reads + device.writes + denied(device), wait: device.wait_ns, part: device.medium_wait_ns, of: "medium",
    })),
  ].filter((row) => row.wait?.max > 0);
  if (rows.length === 0) return el("p", { class: "cx-soft" }, "no request waited at an output or a device");
  rows.sort((a, b) => b.messages * b.wait.mean - a.messages * a.wait.mean);
  return table(
    "Where requests wait, the longest first",
    [
      { name: "place", of: (row) => row.place },
      { name: "messages", of: (row) => row.messages },
      { name: "mean wait, ns", of: (row) => row.wait.mean },
      { name: "p99, ns", of: (row) => row.wait.p99 },
      { name: "max, ns", of: (row) => row.wait.max },
      { name: "of the mean, ns", of: (row) => row.part },
      { name: "for", of: (row) => row.of },
    ],
    rows,
  );
}

/** Latency by number of links crossed, where the numbers differ. @param {any} report */
export function hops(report) {
  if ((report.by_hops ?? []).length < 2) return null;
  return table(
    "Latency by links crossed",
    [
      { name: "links", of: (row) => row.hops },
      { name: "requests", of: (row) => row.count },
      { name: "mean, ns", of: (row) => row.mean_ns, half: (row) => row.ci95?.mean_ns },
      { name: "in queues, ns", of: (row) => row.queue_ns, half: (row) => row.ci95?.queue_ns },
    ],
    report.by_hops,
  );
}

/** Phases of the programs of hosts with a core. @param {any} report */
export function programs(report) {
  const rows = report.hosts.flatMap((/** @type {any} */ host) =>
    (host.core?.phases ?? []).filter((/** @type {any} */ phase) => phase.steps).map((/** @type {any} */ phase) => ({ host: host.name, ...phase })));
  if (rows.length === 0) return null;
  return table(
    "Programs",
    [
      { name: "host", of: (row) => row.host },
      { name: "phase", of: (row) => row.name },
      { name: "operations", of: (row) => row.operations },
      { name: "time, us", of: (row) => row.time_ns / 1e3 },
      { name: "operations/s", of: (row) => row.operations_per_second },
      { name: "GB/s", of: (row) => row.bandwidth_gb_per_s },
      { name: "mean load, ns", of: (row) => row.load_latency_ns },
    ],
    rows,
  );
}

/** Statistics of the media of devices, and of the memory of hosts with a core. @param {any} report */
export function media(report) {
  const owners = [
    ...report.hosts.map((/** @type {any} */ host) => [`${host.name}, its own memory`, host.core?.memory ?? {}]),
    ...report.devices.map((/** @type {any} */ device) => [device.name, device.medium ?? {}]),
  ];
  const rows = owners.flatMap(([owner, values]) => Object.entries(values).map(([name, value]) => ({ owner, name: words(name), value })));
  if (rows.length === 0) return null;
  return table(
    "Media",
    [{ name: "memory of", of: (row) => row.owner }, { name: "statistic", of: (row) => row.name }, { name: "value", of: (row) => row.value }],
    rows,
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

/** Stages in the order in which a request passes them. Each has a colour in page.css. */
const STAGES = [
  "process", "cache", "host_queue", "credits", "link", "port", "switch", "switch_queue", "device", "device_queue",
  "coherence", "media_queue", "media",
];

/** @param {string} name of a stage */
const stageClass = (name) => `cx-stage cx-stage-${STAGES.includes(name) ? name : "other"}`;

/** Requests that are shown at first, of the slowest. */
const SLOWEST = 20;

/**
 * The slowest requests, each as the sum of its stages.
 * @param {any[]} slowest
 * @param {any} report
 */
export function waterfall(slowest, report) {
  if (slowest.length === 0) return el("p", { class: "cx-soft" }, "no request completed in the window");
  const found = new Set(slowest.flatMap((one) => Object.keys(one.stages_ps).filter((name) => one.stages_ps[name])));
  const names = [...STAGES.filter((name) => found.has(name)), ...[...found].filter((name) => !STAGES.includes(name))];
  const rows = slowest.map((one) => fall(one, names, slowest[0].latency_ps, report));
  const heads = ["request", "issued, us", "latency, ns", "stages"].map((name) =>
    el("th", { scope: "col", class: name.includes(",") ? "cx-number" : "" }, name));
  let wanted = (/** @type {string} */ _text) => true;
  const legend = names.map((name) => el("li", {}, el("i", { class: `cx-key ${stageClass(name)}` }), words(name)));
  const title = "Slowest requests";
  const above = [el("h2", {}, title), el("ul", { class: "cx-legend" }, ...legend)];
  const part = sheet(title, above, heads, SLOWEST, (row) => row, () => rows.filter((row) => wanted(row.firstElementChild?.textContent ?? "")));
  part.show();
  filtered(part.element, (matches) => {
    wanted = matches;
    part.show();
  });
  return part.element;
}

/**
 * A row of the slowest requests.
 * @param {any} one the request
 * @param {string[]} names of stages
 * @param {number} longest latency that fills the width, in ps
 * @param {any} report
 */
function fall(one, names, longest, report) {
  const taken = names.filter((name) => one.stages_ps[name]);
  const ns = (/** @type {string} */ name) => `${words(name)} ${number(one.stages_ps[name] / 1e3)}`;
  const parts = taken.map((name) =>
    el("i", { class: stageClass(name), style: `width:${(100 * one.stages_ps[name]) / longest}%`, title: `${ns(name)} ns` }));
  const host = report.hosts[one.host]?.name ?? report.accelerators?.[one.host - report.hosts.length]?.name;
  const device = one.device == null ? "-" : (report.devices[one.device]?.name ?? one.device);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, `${host ?? one.host} ${one.write ? "to" : "from"} ${device}`),
    el("td", { class: "cx-number" }, number(one.issued_ps / 1e6)),
    el("td", { class: "cx-number" }, number(one.latency_ps / 1e3)),
    el("td", { class: "cx-fall" }, el("div", { "aria-hidden": "true" }, ...parts), el("span", { class: "cx-unseen" }, taken.map(ns).join(", "))),
  );
}

/**
 * What a report says of links, hosts or devices by their names, and the links at them.
 * @param {any} report
 * @param {string[]} names
 * @param {string[]} [members] names inside, if the names are of a group
 */
export function details(report, names, members = []) {
  const found = [...report.links, ...report.hosts, ...(report.accelerators ?? []), ...report.devices].filter((part) =>
    names.includes(part.direction ?? part.name),
  );
  const ends = new Set([...names, ...members]);
  const around = report.links.filter((/** @type {any} */ link) => link.direction.split("->").some((/** @type {string} */ end) => ends.has(end)));
  if (found.length + around.length === 0) {
    return el("p", { class: "cx-soft" }, `${names.join(", ")}: the report has no numbers of it.`);
  }
  const parts = found.map((part) => el("section", {}, el("h2", {}, part.direction ?? part.name), facts(part)));
  if (around.length > 0) {
    const title = members.length > 0 ? `Links at ${names[0].split(":")[0]}` : `Links at ${names.join(", ")}`;
    parts.push(links({ links: around }, undefined, title));
  }
  return el("div", { class: "cx-details" }, ...parts);
}

/** @param {any} part */
function facts(part) {
  const rows = Object.entries(part).flatMap(([name, value]) => {
    if (name === "name" || name === "direction" || name === "ci95" || value == null) return [];
    if (typeof value !== "object") return [[label(name), name === "utilization" || name === "efficiency" ? percent(value) : plain(value)]];
    if (Array.isArray(value)) return [];
    return Object.entries(value).flatMap(([inner, one]) => (typeof one === "object" ? [] : [[label(name, words(inner)), plain(one)]]));
  });
  return el(
    "table",
    { class: "cx-table" },
    el("tbody", {}, ...rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "cx-number" }, value)))),
  );
}

/** Units at the end of names in reports. */
const UNITS = /** @type {const} */ ([["_ns", "ns"], ["_ps", "ps"], ["_gb_per_s", "GB/s"]]);

/**
 * A name of a report as words, with its unit: `wait_ns` and `mean` is "wait, mean, ns".
 * @param {string} name
 * @param {string} [inner] name inside a table
 */
function label(name, inner) {
  const unit = UNITS.find(([end]) => name.endsWith(end));
  const parts = [words(unit ? name.slice(0, -unit[0].length) : name), inner, unit?.[1]];
  return parts.filter(Boolean).join(", ");
}

/** @param {any} value */
function plain(value) {
  return typeof value === "number" ? number(value) : String(value);
}
