// Two runs side by side.

import { compare } from "../../python/cxlab/page/compare.js";
import { el } from "../../python/cxlab/page/dom.js";
import { topology } from "../../python/cxlab/page/topology.js";

/** @param {{ name: string, text: string, result: any }[]} runs newest first */
export function comparePanel(runs) {
  const choice = (/** @type {string} */ id) => /** @type {HTMLSelectElement} */ (el("select", { id, change: () => show() }));
  const [before, after] = [choice("before"), choice("after")];
  const shown = el("div");

  function refresh() {
    for (const [select, place] of /** @type {[HTMLSelectElement, number][]} */ ([[before, 1], [after, 0]])) {
      select.replaceChildren(...runs.map((run, number) => el("option", { value: number }, run.name)));
      select.value = String(Math.min(place, runs.length - 1));
    }
    show();
  }

  function show() {
    const [a, b] = [runs[Number(before.value)], runs[Number(after.value)]];
    if (!a || !b || runs.length < 2) {
      shown.replaceChildren(el("p", { class: "cx-soft" }, "Run twice, with a change or another seed between, to compare."));
      return;
    }
    const changes = differences(a.text, b.text);
    shown.replaceChildren(
      compare(a.result.report, b.result.report, [a.name, b.name]),
      el("h2", {}, "Changed lines"),
      changes.length > 0 ? el("pre", { tabindex: 0 }, changes.join("\n")) : el("p", { class: "cx-soft" }, "The scenarios are the same."),
      el(
        "div",
        { class: "lab-two" },
        ...[a, b].map((run) => el("div", {}, el("h2", {}, run.name), topology(run.result.picture, () => {}))),
      ),
    );
  }

  show();
  return {
    element: el(
      "div",
      {},
      el("p", { class: "lab-row" }, el("label", { for: "before" }, "before ", before), el("label", { for: "after" }, "after ", after)),
      shown,
    ),
    refresh,
  };
}

/**
 * Lines of one text that the other has not.
 * @param {string} before
 * @param {string} after
 */
function differences(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  return [
    ...a.filter((line) => line.trim() && !b.includes(line)).map((line) => `- ${line}`),
    ...b.filter((line) => line.trim() && !a.includes(line)).map((line) => `+ ${line}`),
  ];
}
