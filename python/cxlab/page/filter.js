// One filter for several parts of a page: tables, the picture and the slowest requests.

import { el } from "./dom.js";

const EVENT = "cx-filter";

/**
 * Lets a part of a page follow the filter of the page.
 * @param {HTMLElement} element
 * @param {(matches: (text: string) => boolean) => void} apply
 */
export function filtered(element, apply) {
  element.dataset.filtered = "";
  element.addEventListener(EVENT, (event) => {
    const wanted = /** @type {CustomEvent<string[]>} */ (event).detail;
    apply((text) => wanted.every((word) => text.toLowerCase().includes(word)));
  });
}

/**
 * A field whose words all have to be in what the parts inside a page show.
 * @param {ParentNode} page
 * @returns {HTMLElement}
 */
export function filterField(page) {
  const apply = (/** @type {any} */ event) => {
    const detail = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of page.querySelectorAll("[data-filtered]")) part.dispatchEvent(new CustomEvent(EVENT, { detail }));
  };
  const field = el("input", { type: "search", id: "filter", placeholder: "host, device or link", autocomplete: "off", input: apply });
  return el("p", { class: "cx-filter" }, el("label", { for: "filter" }, "Filter "), field);
}
