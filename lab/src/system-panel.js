// The picture of the system, and what the last report says of the part that was clicked.

import { el } from "../../python/cxlab/page/dom.js";
import { topology } from "../../python/cxlab/page/topology.js";
import { details } from "../../python/cxlab/page/views.js";

export function systemPanel() {
  const picture = el("div", {}, el("p", { class: "cx-soft" }, "The picture comes when the scenario has no mistakes."));
  const said = el("div", { class: "lab-said", "aria-live": "polite" });

  /**
   * @param {string} drawing
   * @param {any} report null before a run
   */
  function show(drawing, report) {
    said.replaceChildren(
      el("p", { class: "cx-soft" }, report ? "Colours say how busy a link was. Click a box or a link." : "Run to colour the links by their use."),
    );
    const choose = (/** @type {string[]} */ names) =>
      said.replaceChildren(report ? details(report, names) : el("p", {}, `${names.join(", ")}: run to see its numbers.`));
    picture.replaceChildren(topology(drawing, choose));
  }

  return { element: el("div", {}, picture, said), show };
}
