// The page that `cxlab report` writes: the parts of a report, from the numbers that are in the page.

import { compare } from "./compare.js";
import { el } from "./dom.js";
import { filterField } from "./filter.js";
import { number } from "./format.js";
import { unpacked } from "./packed.js";
import { topology } from "./topology.js";
import {
  details, devices, histogram, hops, issuers, links, media, notes, overTime, programs, stages, tiles, waits, waterfall,
} from "./views.js";

/**
 * A run as the page has it: its report, its picture, its slowest requests, and how the reader knows it.
 * @typedef {{ report: any, picture: string | null, slowest: any[] | null, measured: number | null, name: string }} Run
 */

/** Largest report that the reader may open beside the page's own, in bytes. */
const MOST_BYTES = 256 * 2 ** 20;
const SCHEMES = ["system", "light", "dark"];

/** @param {Run} run */
function reportParts(run) {
  const { report } = run;
  const said = el("div", { class: "page-said", "aria-live": "polite" });
  const choose = (/** @type {string[]} */ names, /** @type {string[]} */ members = []) =>
    said.replaceChildren(details(report, names, members));
  const row = (/** @type {any} */ part) => {
    choose([part.direction ?? part.name]);
    said.scrollIntoView({ block: "nearest" });
  };
  const page = el("div", { class: "page-report" });
  page.append(
    ...[
      tiles(report),
      el("p", { class: "page-note" }, intervals(report)),
      notes(report),
      el("div", { class: "page-filter" }, filterField(page)),
      run.picture ? el("section", {}, el("h2", {}, "Topology and link utilization"), topology(run.picture, choose), said) : said,
      el("div", { class: "page-two" }, stages(report), histogram(report)),
      report.sampling ? null : overTime(report),
      run.slowest ? waterfall(run.slowest, report) : null,
      run.measured ? el("p", { class: "page-note" }, `Slowest of ${number(run.measured)} measured requests.`) : null,
      links(report, row),
      el("div", { class: "page-two" }, issuers(report, row), devices(report, row)),
      waits(report),
      programs(report),
      media(report),
      hops(report),
      footer(report),
    ].filter((part) => part !== null),
  );
  return page;
}

/** What the intervals of the tiles are. @param {any} report */
function intervals(report) {
  const { batches, reason } = report.ci95;
  if (reason) return `Values without an interval: ${reason}.`;
  const parts = report.sampling ? "sampling units" : "batches";
  return `± is half of a 95 % confidence interval, from ${batches} ${parts}. Percentiles have none; they are upper bounds (0.1 %, or 0.128 ns).`;
}

/** @param {any} report */
function footer(report) {
  const code = (/** @type {string} */ text) => el("code", {}, text);
  return el(
    "footer",
    {},
    `cxlab ${report.version}; `,
    ...(report.run ? ["run ", code(report.run), "; "] : []),
    "plan ", code(report.plan_hash), "; digest ", code(report.digest),
    `; ${number(report.events)} events in ${number(report.wall_seconds)} s`,
  );
}

/** @param {any} report */
function subtitle(report) {
  const count = (/** @type {any[]} */ parts, /** @type {string} */ noun) => `${number(parts.length)} ${noun}${parts.length === 1 ? "" : "s"}`;
  return `${count(report.hosts, "host")}, ${count(report.devices, "device")}; measured for ${number(report.window_ns / 1e3)} µs `
    + `after ${number(report.warmup_ns / 1e3)} µs of warm-up; seed ${report.seed}`;
}

/**
 * A report that the reader opened.
 * @param {File} file
 * @returns {Promise<any>}
 */
async function opened(file) {
  if (file.size > MOST_BYTES) throw new Error(`found ${number(file.size)} bytes; allowed: at most ${number(MOST_BYTES)}`);
  const report = JSON.parse(await file.text());
  const known = report?.format === 2 && report.latency_ns && report.stages_ns && Array.isArray(report.latency_histogram);
  if (!known) throw new Error("found no report; allowed: a report.json of this version's format");
  return report;
}

/** The comparison with another report. @param {Run} run @param {HTMLElement} place @param {any} report @param {string} name */
function compareWith(run, place, report, name) {
  const heading = el("h2", {}, `${run.name} and ${name}`);
  const shut = el("button", { type: "button", click: () => place.replaceChildren() }, "Close");
  place.replaceChildren(el("section", { class: "page-compare" }, heading, compare(run.report, report, [run.name, name]), shut));
}

/** @param {Run} run @param {HTMLElement} place where a comparison is shown */
function tools(run, place) {
  const wrong = el("output", { class: "page-wrong" });
  const choose = async (/** @type {any} */ event) => {
    const file = /** @type {File | undefined} */ (event.target.files[0]);
    event.target.value = "";
    if (!file) return;
    try {
      compareWith(run, place, await opened(file), file.name);
      wrong.textContent = "";
    } catch (error) {
      wrong.textContent = `${file.name}: ${error instanceof Error ? error.message : error}`;
    }
  };
  const setScheme = (/** @type {any} */ event) => {
    document.documentElement.dataset.scheme = event.target.value;
  };
  return el(
    "div",
    { class: "page-tools" },
    wrong,
    el("input", { type: "file", id: "other", class: "page-unseen", accept: ".json,application/json", change: choose }),
    el("label", { for: "other", class: "page-button" }, "Compare with report.json"),
    el("label", { for: "scheme" }, "colours "),
    el("select", { id: "scheme", change: setScheme }, ...SCHEMES.map((name) => el("option", { value: name }, name))),
  );
}

/** @param {Run[]} runs the first is shown, the others are compared with it */
function showPage([run, ...others]) {
  const place = el("div", { "aria-live": "polite" });
  const head = el("div", {}, el("h1", {}, run.report.scenario), el("p", {}, subtitle(run.report)));
  const main = document.querySelector("main");
  main?.replaceChildren(el("header", { class: "page-head" }, head, tools(run, place)), place, reportParts(run));
  for (const other of others) compareWith(run, place, other.report, other.name);
}

showPage(unpacked(JSON.parse(document.getElementById("runs")?.textContent ?? "[]")));
