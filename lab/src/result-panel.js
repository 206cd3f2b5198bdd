// The report of the last run.

import { el } from "../../python/cxlab/page/dom.js";
import { topology } from "../../python/cxlab/page/topology.js";
import { details, devices, histogram, issuers, links, notes, overTime, stages, tiles, waterfall } from "../../python/cxlab/page/views.js";

export function resultPanel() {
  const element = el("div", { class: "lab-result" }, el("p", { class: "cx-soft" }, "Run the scenario to see its report here."));

  /** @param {any} found @param {string} _text */
  function show(found, _text) {
    const { report, slowest, summary, picture } = found;
    const said = el("div", { class: "lab-said", "aria-live": "polite" });
    const choose = (/** @type {string[]} */ names) => said.replaceChildren(details(report, names));
    const row = (/** @type {any} */ part) => {
      choose([part.direction ?? part.name]);
      said.scrollIntoView({ block: "nearest" });
    };
    element.replaceChildren(
      tiles(report),
      notes(report),
      topology(picture, choose),
      said,
      el("div", { class: "lab-two" }, stages(report), histogram(report)),
      overTime(report),
      links(report, row),
      el("div", { class: "lab-two" }, issuers(report, row), devices(report, row)),
      waterfall(slowest, report),
      el("details", {}, el("summary", {}, "The table of the command"), el("pre", { tabindex: 0 }, summary)),
    );
  }

  return { element, show };
}
