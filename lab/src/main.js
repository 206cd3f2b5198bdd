// The lab: a scenario on the left, what the core says of it on the right.

import "../../python/cxlab/page/page.css";
import "./lab.css";
import { el } from "../../python/cxlab/page/dom.js";
import { comparePanel } from "./compare-panel.js";
import { Core } from "./core.js";
import { editor } from "./editor.js";
import { files, folder } from "./files.js";
import { RemoteCore } from "./remote.js";
import { resultPanel } from "./result-panel.js";
import { PRESETS, FIRST } from "./presets.js";
import { pack, unpack } from "./share.js";
import { sweepPanel } from "./sweep-panel.js";
import { systemPanel } from "./system-panel.js";
import { tabs } from "./tabs.js";

const KEPT = "cxlab-lab-scenario";
const SCHEME = "cxlab-lab-scheme";

const served = document.querySelector('meta[name="cxlab-serve"]') !== null;
const remote = served ? new RemoteCore() : null;
const core = remote ?? new Core();
const status = el("p", { class: "lab-status", role: "status", "aria-live": "polite" });
const problems = el("ul", { class: "lab-problems" });
const progress = /** @type {HTMLProgressElement} */ (el("progress", { max: 1, "aria-label": "Progress of the run", hidden: true }));
const runButton = /** @type {HTMLButtonElement} */ (el("button", { type: "button", class: "lab-main", click: () => void run() }, "Run"));
const stopButton = /** @type {HTMLButtonElement} */ (el("button", { type: "button", hidden: true, click: () => running?.stop() }, "Stop"));
const seed = /** @type {HTMLInputElement} */ (el("input", { type: "number", min: 0, step: 1, id: "seed", placeholder: "scenario's" }));
const threads = /** @type {HTMLInputElement} */ (el("input", { type: "number", min: 1, max: 256, step: 1, id: "threads", placeholder: "auto" }));
let running = /** @type {{ stop: () => void } | null} */ (null);

/** @typedef {{ name: string, text: string, result: any }} Run */
/** @type {Run[]} */
const runs = [];
let started = 0;
/** The text of which the picture is shown. */
let drawn = "";
/** The text whose run has coloured the picture. */
let coloured = "";

/** @param {string} text @param {boolean} [wrong] */
function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("lab-wrong", wrong);
}

const system = systemPanel();
const result = resultPanel();
const comparison = comparePanel(runs);
const sweep = sweepPanel({ core, text: () => edit.text(), say, busy });
const panels = tabs([
  ["System", system.element],
  ["Result", result.element],
  ["Sweep", sweep.element],
  ["Compare", comparison.element],
]);

/** Says whether something runs, with what stops it. @param {{ stop: () => void } | null} what */
function busy(what) {
  running = what;
  runButton.disabled = what !== null;
  stopButton.hidden = what === null;
  progress.hidden = what === null;
  progress.removeAttribute("value");
}

async function run() {
  if (running) return;
  const text = edit.text();
  const settings = seed.value === "" ? {} : { seed: Number(seed.value) };
  if (threads.value !== "") Object.assign(settings, { threads: Number(threads.value) });
  const began = performance.now();
  const { result: ended, stop } = core.run(text, settings, (found) => {
    if (found.fraction != null) progress.value = found.fraction;
    say(`${found.completed.toLocaleString("en-US")} requests, ${(found.simulated_ns / 1e3).toFixed(1)} us simulated`);
  });
  busy({ stop });
  say("running");
  try {
    const found = await ended;
    const seconds = (performance.now() - began) / 1e3;
    runs.unshift({ name: `run ${++started}: ${found.report.scenario}, seed ${found.report.seed}`, text, result: found });
    runs.length = Math.min(runs.length, 12);
    drawn = coloured = text;
    result.show(found, text);
    system.show(found.picture, found.report);
    comparison.refresh();
    panels.choose("Result");
    say(`${found.report.partial ? "stopped after" : "done in"} ${seconds.toFixed(2)} s; digest ${found.report.digest}`);
  } catch (error) {
    fail(error);
  } finally {
    busy(null);
  }
}

/** @param {any} error */
function fail(error) {
  if (error.mistakes?.length > 0) list({ mistakes: error.mistakes, notes: [] });
  say(error.mistakes?.length > 0 ? "the scenario has mistakes" : error.message, true);
}

/** Lists what the core says of the text. @param {any} found */
function list(found) {
  const items = [...found.mistakes, ...found.notes].slice(0, 50).map((one) => {
    const wrong = one.level === "error";
    const place = one.line == null ? "" : `line ${one.line}: `;
    const text = `${wrong ? "" : "note: "}${place}${one.message}${one.help ? ` (${one.help})` : ""}`;
    const go = el("button", { type: "button", class: "cx-link", click: () => edit.show(one.line ?? 1) }, text);
    return el("li", { class: wrong ? "lab-wrong" : "" }, go);
  });
  problems.replaceChildren(...items);
}

/** Draws the system whenever the text has no mistakes. @param {any} found */
async function checked(found) {
  list(found);
  const text = edit.text();
  if (found.mistakes.length > 0 || text === drawn) return;
  drawn = text;
  try {
    const picture = await core.draw(text);
    // A run of the same text has coloured it meanwhile.
    if (coloured !== text) system.show(picture, null);
  } catch (error) {
    fail(error);
  }
}

const picker = /** @type {HTMLSelectElement} */ (el(
  "select",
  {
    id: "preset",
    change: (event) => {
      const chosen = PRESETS.find((one) => one.name === event.target.value);
      if (chosen) edit.replace(chosen.text);
    },
  },
  el("option", { value: "" }, "choose a scenario"),
  ...PRESETS.map((one) => el("option", { value: one.name, title: one.description }, one.name)),
));

async function share() {
  const address = new URL(location.href);
  address.hash = await pack(edit.text());
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(address.href);
    say(`the address is copied (${address.href.length} characters)`);
  } catch {
    say("the address of this page now has the scenario; copy it");
  }
}

/** @param {string} name @param {string} text @param {string} type */
function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function downloadReport() {
  const last = runs[0];
  if (!last) return say("there is no report yet: run first");
  download("report.json", JSON.stringify(last.result.report, null, 2), "application/json");
}

const SCHEMES = ["system", "light", "dark"];
const scheme = /** @type {HTMLSelectElement} */ (el(
  "select",
  { id: "scheme", change: (event) => setScheme(event.target.value) },
  ...SCHEMES.map((name) => el("option", { value: name }, name)),
));

/** @param {string} name */
function setScheme(name) {
  const chosen = SCHEMES.includes(name) ? name : "system";
  scheme.value = chosen;
  document.documentElement.dataset.scheme = chosen;
  keep(SCHEME, chosen);
}

/** @param {string} name @param {string} value */
function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing runs scenarios as well.
  }
}

/** @param {string} name */
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

const button = (/** @type {string} */ text, /** @type {() => void} */ act) => el("button", { type: "button", click: act }, text);
const left = el("div", { class: "lab-editor" });
const dropped = remote ? folder(remote) : files(/** @type {Core} */ (core), say, () => edit.replace(edit.text()));
document.querySelector("#lab")?.replaceChildren(
  el(
    "header",
    { class: "lab-head" },
    el("h1", {}, "cxlab lab"),
    el("label", { for: "preset", class: "cx-unseen" }, "Start from"),
    picker,
    runButton,
    stopButton,
    el("label", { for: "seed" }, "seed ", seed),
    served ? el("label", { for: "threads" }, "threads ", threads) : null,
    el("span", { class: "lab-gap" }),
    button("Share", () => void share()),
    button("Scenario", () => download("scenario.toml", edit.text(), "text/plain")),
    button("Report", downloadReport),
    el("label", { for: "scheme" }, "colours ", scheme),
    served ? null : el("a", { href: "../" }, "Documentation"),
  ),
  el("div", { class: "lab-progress" }, progress, status),
  el(
    "main",
    { class: "lab-main-part" },
    el("section", { class: "lab-left", "aria-label": "Scenario" }, left, problems, dropped.element),
    el("section", { class: "lab-right", "aria-label": "System and results" }, panels.element),
  ),
);

setScheme(kept(SCHEME) ?? "system");
const edit = editor(left, kept(KEPT) ?? FIRST, {
  check: (text) => core.check(text),
  changed: (text) => keep(KEPT, text),
  checked: (found) => void checked(found),
  run: () => void run(),
});

/** Brings back the runs that the server has kept. @param {RemoteCore} server */
async function earlier(server) {
  try {
    const known = await server.history();
    for (const one of known.filter((run) => run.state === "done" || run.state === "stopped").slice(0, 8)) {
      const { text, result: found } = await server.kept(one.id);
      runs.push({ name: `${new Date(one.asked * 1e3).toLocaleString()}: ${one.name}`, text, result: found });
    }
    comparison.refresh();
  } catch (error) {
    fail(error);
  }
}

async function open() {
  try {
    const shared = await unpack(location.hash);
    if (shared !== null) edit.replace(shared);
  } catch (error) {
    say(/** @type {Error} */ (error).message, true);
  }
}

addEventListener("hashchange", () => void open());
await open();
if (remote) void earlier(remote);
edit.use(await core.schema());
