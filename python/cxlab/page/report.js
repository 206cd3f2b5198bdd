// The page of a report: `cxlab report` puts this after the modules that it uses, in one script.

import { compare } from "./compare.js";
import { el } from "./dom.js";
import { topology } from "./topology.js";
import { details, devices, histogram, hops, issuers, links, media, notes, overTime, programs, stages, tiles, waits, waterfall } from "./views.js";

/** @type {{ report: any, picture: string | null, slowest: any[] | null, other: any }} */
const data = JSON.parse(document.querySelector("#data")?.textContent ?? "{}");
const { report, picture, slowest, other } = data;

const said = el("div", { class: "cx-said", "aria-live": "polite" });
/** @param {string[]} names */
function choose(names) {
  said.replaceChildren(details(report, names));
}
/** @param {any} row */
function chooseRow(row) {
  choose([row.direction ?? row.name]);
  said.scrollIntoView({ block: "nearest" });
}

/** @param {string} title @param {...(Node | null)} content */
function section(title, ...content) {
  return el("section", {}, title ? el("h2", {}, title) : null, ...content);
}

const sampled = report.sampling != null;
document.querySelector("#page")?.replaceChildren(
  tiles(report),
  notes(report),
  section("", picture ? topology(picture, choose) : el("p", { class: "cx-soft" }, "The folder has no picture."), said),
  el("div", { class: "cx-two" }, stages(report), histogram(report)),
  ...(sampled ? [] : [overTime(report)]),
  waits(report),
  links(report, chooseRow),
  el("div", { class: "cx-two" }, issuers(report, chooseRow), devices(report, chooseRow)),
  ...[programs(report), media(report)].filter((part) => part !== null),
  hops(report),
  ...(slowest ? [waterfall(slowest, report)] : []),
  ...(other ? [section(`Compared with ${other.scenario}, seed ${other.seed}`, compare(other, report, [`${other.scenario}, ${other.seed}`, `${report.scenario}, ${report.seed}`]))] : []),
);
