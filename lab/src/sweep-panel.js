// One key over several values: latency against bandwidth, and a table.

import { lines } from "../../python/cxlab/page/chart.js";
import { el } from "../../python/cxlab/page/dom.js";
import { table } from "../../python/cxlab/page/table.js";

/** Most points of a sweep. */
const MOST = 64;

/**
 * @param {{ core: import("./core.js").Core | import("./remote.js").RemoteCore, text: () => string, say: (text: string, wrong?: boolean) => void,
 *   busy: (what: { stop: () => void } | null) => void }} lab
 */
export function sweepPanel({ core, text, say, busy }) {
  const key = /** @type {HTMLInputElement} */ (el("input", { id: "sweep-key", value: "hosts[0].issue.outstanding", size: 28, spellcheck: "false" }));
  const values = /** @type {HTMLInputElement} */ (el("input", { id: "sweep-values", value: "1, 2, 4, 8, 16, 32, 64, 128, 256", size: 34, spellcheck: "false" }));
  const shown = el("div");
  const go = /** @type {HTMLButtonElement} */ (el("button", { type: "button", class: "lab-main", click: () => void sweep() }, "Sweep"));

  async function sweep() {
    const points = values.value.split(/,(?![^{[]*[}\]])/).map((value) => value.trim()).filter(Boolean);
    if (points.length === 0 || points.length > MOST) {
      return say(`found ${points.length} values; allowed: 1 to ${MOST}, separated by commas`, true);
    }
    const scenario = text();
    const rows = /** @type {any[]} */ ([]);
    let stopped = false;
    go.disabled = true;
    try {
      for (const value of points) {
        const { result, stop } = core.run(scenario, { set: [`${key.value.trim()}=${value}`] }, () => {});
        busy({ stop: () => { stopped = true; stop(); } });
        say(`${key.value} = ${value}: ${rows.length + 1} of ${points.length}`);
        const { report } = await result;
        if (stopped) break;
        rows.push({ value, report });
        show(rows);
      }
      say(stopped ? `stopped; ${rows.length} of ${points.length} are shown` : `${rows.length} runs are done`);
    } catch (error) {
      const { mistakes, message } = /** @type {any} */ (error);
      say(mistakes?.[0] ? mistakes[0].message : message, true);
    } finally {
      go.disabled = false;
      busy(null);
    }
  }

  /** @param {any[]} rows */
  function show(rows) {
    const point = (/** @type {(report: any) => number} */ of) =>
      rows.map(({ report }) => /** @type {[number, number]} */ ([report.bandwidth_gb_per_s.total, of(report)]));
    shown.replaceChildren(
      lines({
        title: "Latency under load",
        x: "bandwidth, GB/s",
        y: "latency, ns",
        dots: true,
        series: [
          { name: "mean", points: point((report) => report.latency_ns.mean) },
          { name: "p99", points: point((report) => report.latency_ns.p99) },
        ],
      }),
      table(
        "Runs",
        [
          { name: key.value, of: (row) => (Number.isFinite(Number(row.value)) ? Number(row.value) : row.value) },
          { name: "GB/s", of: (row) => row.report.bandwidth_gb_per_s.total },
          { name: "mean, ns", of: (row) => row.report.latency_ns.mean },
          { name: "p50, ns", of: (row) => row.report.latency_ns.p50 },
          { name: "p99, ns", of: (row) => row.report.latency_ns.p99 },
          { name: "p99.9, ns", of: (row) => row.report.latency_ns.p999 },
          { name: "busiest link", of: (row) => Math.max(0, ...row.report.links.map((/** @type {any} */ link) => link.utilization)), share: true },
        ],
        rows,
      ),
    );
  }

  const form = el(
    "p",
    { class: "lab-row" },
    el("label", { for: "sweep-key" }, "key ", key),
    el("label", { for: "sweep-values" }, "values ", values),
    go,
  );
  return { element: el("div", {}, form, shown) };
}
