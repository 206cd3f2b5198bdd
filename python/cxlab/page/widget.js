// The picture of a system in a notebook: it follows the Python object, and tells it what was clicked.

import { el } from "./dom.js";
import { unpacked } from "./packed.js";
import { topology } from "./topology.js";
import { details } from "./views.js";

/**
 * What anywidget gives: values that Python and the page share.
 * @typedef {{ get: (name: string) => any, set: (name: string, value: any) => void, save_changes: () => void,
 *   on: (event: string, act: () => void) => void, off: (event: string, act: () => void) => void }} Model
 */

/** @param {{ model: Model, el: HTMLElement }} view */
function render({ model, el: root }) {
  const picture = el("div");
  const said = el("div", { "aria-live": "polite" });
  const draw = () => picture.replaceChildren(topology(model.get("picture"), choose));
  const say = () => {
    const [names, members] = [model.get("selected"), model.get("members")];
    const report = unpacked(JSON.parse(model.get("report") || "null"));
    if (names.length === 0) said.replaceChildren();
    else if (report) said.replaceChildren(details(report, names, members));
    else said.replaceChildren(el("p", { class: "cx-soft" }, `${names.join(", ")}: a run has its numbers.`));
  };
  /** @param {string[]} names @param {string[]} members */
  function choose(names, members) {
    model.set("members", members);
    model.set("selected", names);
    model.save_changes();
  }
  /** @type {[string, () => void][]} */
  const changes = [["change:picture", draw], ["change:report", say], ["change:selected", say]];
  for (const [event, act] of changes) model.on(event, act);
  root.classList.add("cx-widget");
  root.append(picture, said);
  draw();
  say();
  return () => changes.forEach(([event, act]) => model.off(event, act));
}

export default { render };
