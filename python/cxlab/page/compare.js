// Two reports side by side: what differs, and whether it is beyond both intervals.

import { lines } from "./chart.js";
import { el } from "./dom.js";
import { cumulative, withHalf, words } from "./format.js";

/** The numbers that are compared: name, value, half of its 95 % interval. */
const NUMBERS = /** @type {[string, (report: any) => number, (report: any) => number | null | undefined][]} */ ([
  ["bandwidth, GB/s", (report) => report.bandwidth_gb_per_s.total, (report) => report.ci95?.total_gb_per_s],
  ["reads, GB/s", (report) => report.bandwidth_gb_per_s.read, (report) => report.ci95?.read_gb_per_s],
  ["writes, GB/s", (report) => report.bandwidth_gb_per_s.write, (report) => report.ci95?.write_gb_per_s],
  ["mean latency, ns", (report) => report.latency_ns.mean, (report) => report.ci95?.latency_ns],
  ["p50, ns", (report) => report.latency_ns.p50, () => null],
  ["p99, ns", (report) => report.latency_ns.p99, () => null],
  ["p99.9, ns", (report) => report.latency_ns.p999, () => null],
]);

/**
 * @param {any} before
 * @param {any} after
 * @param {[string, string]} names
 * @returns {HTMLElement}
 */
export function compare(before, after, names) {
  const stageNames = [...new Set([...Object.keys(before.stages_ns), ...Object.keys(after.stages_ns)])];
  const stages = stageNames.map((name) => /** @type {(typeof NUMBERS)[0]} */ ([
    `stage ${words(name)}, ns`,
    (report) => report.stages_ns[name] ?? 0,
    (report) => report.ci95?.stages_ns?.[name],
  ]));
  const rows = [...NUMBERS, ...stages].flatMap(([name, of, half]) => {
    const [a, b] = [of(before), of(after)];
    if (!(a || b)) return [];
    return [
      el(
        "tr",
        {},
        el("th", { scope: "row" }, name),
        el("td", { class: "cx-number" }, withHalf(a, half(before))),
        el("td", { class: "cx-number" }, withHalf(b, half(after))),
        el("td", { class: "cx-number" }, a ? `${b >= a ? "+" : ""}${((100 * (b - a)) / a).toFixed(1)} %` : "-"),
        el("td", {}, verdict(a, b, half(before), half(after))),
      ),
    ];
  });
  const heads = ["number", ...names, "change", "beyond the intervals"].map((head, place) =>
    el("th", { scope: "col", class: place > 0 && place < 4 ? "cx-number" : "" }, head));
  const series = [before, after].map((report, place) => ({ name: names[place], points: cumulative(report.latency_histogram) }));
  return el(
    "div",
    { class: "cx-compare" },
    el("div", { class: "cx-wide", tabindex: 0, role: "region", "aria-label": "Numbers of both runs" }, el("table", { class: "cx-table" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))),
    lines({ title: "Latency of served requests", x: "latency, ns", y: "requests up to it, %", series, steps: true }),
  );
}

/**
 * @param {number} a
 * @param {number} b
 * @param {number | null | undefined} halfA
 * @param {number | null | undefined} halfB
 */
function verdict(a, b, halfA, halfB) {
  if (a === b) return "equal";
  if (halfA == null || halfB == null) return "no interval";
  return Math.abs(a - b) > halfA + halfB ? "yes" : "no";
}
