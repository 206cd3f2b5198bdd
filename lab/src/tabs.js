// Panels of which one is shown, as ARIA's tabs: arrow keys move between them.

import { el } from "../../python/cxlab/page/dom.js";

/**
 * @param {[string, HTMLElement][]} panels
 * @returns {{ element: HTMLElement, choose: (name: string) => void }}
 */
export function tabs(panels) {
  const buttons = panels.map(([name], place) =>
    el("button", {
      type: "button",
      role: "tab",
      id: `tab-${name}`,
      "aria-controls": `panel-${name}`,
      click: () => choose(name),
      keydown: (event) => {
        const step = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1 })[event.key];
        if (!step) return;
        const next = (place + step + panels.length) % panels.length;
        choose(panels[next][0]);
        buttons[next].focus();
      },
    }, name),
  );
  const sheets = panels.map(([name, element]) =>
    el("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: 0 }, element),
  );

  /** @param {string} chosen */
  function choose(chosen) {
    panels.forEach(([name], place) => {
      const is = name === chosen;
      buttons[place].setAttribute("aria-selected", String(is));
      buttons[place].tabIndex = is ? 0 : -1;
      sheets[place].hidden = !is;
    });
  }

  choose(panels[0][0]);
  return { element: el("div", { class: "lab-tabs" }, el("div", { role: "tablist", "aria-label": "Views" }, ...buttons), ...sheets), choose };
}
