// A table whose rows can be sorted and filtered.

import { el } from "./dom.js";
import { number, percent } from "./format.js";

/**
 * @typedef {{ name: string, of: (row: any) => string | number | null | undefined, share?: boolean }} Column
 */

/** Rows that are shown at first. */
const SHOWN = 12;

/**
 * @param {string} title
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {(row: any) => void} [choose] is called with a row that was clicked
 * @returns {HTMLElement}
 */
export function table(title, columns, rows, choose) {
  let [sorted, falling, filter, all] = [-1, false, "", false];
  const body = el("tbody");
  const more = el("button", { type: "button", class: "cx-more", click: () => { all = true; show(); } });
  const heads = columns.map((column, place) => {
    const button = el("button", { type: "button", click: () => { falling = sorted === place ? !falling : true; sorted = place; show(); } }, column.name);
    return el("th", { scope: "col", "aria-sort": "none" }, button);
  });
  const search = el("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": `Filter ${title}`,
    input: (event) => { filter = event.target.value.toLowerCase(); show(); },
  });

  function show() {
    heads.forEach((head, place) =>
      head.setAttribute("aria-sort", place !== sorted ? "none" : falling ? "descending" : "ascending"),
    );
    const text = (/** @type {any} */ row) => String(columns[0].of(row)).toLowerCase();
    let found = filter ? rows.filter((row) => text(row).includes(filter)) : [...rows];
    if (sorted >= 0) {
      const of = columns[sorted].of;
      found.sort((a, b) => order(of(a), of(b)) * (falling ? -1 : 1));
    }
    const hidden = all ? 0 : Math.max(0, found.length - SHOWN);
    if (!all) found = found.slice(0, SHOWN);
    body.replaceChildren(...found.map((row) => line(columns, row, choose)));
    more.textContent = `${number(hidden)} more`;
    more.hidden = hidden === 0;
  }

  show();
  return el(
    "div",
    { class: "cx-sheet" },
    el("div", { class: "cx-sheet-head" }, el("h2", {}, title), rows.length > SHOWN ? search : null),
    el("div", { class: "cx-wide", tabindex: 0, role: "region", "aria-label": title }, el("table", { class: "cx-table" }, el("thead", {}, el("tr", {}, ...heads)), body)),
    more,
  );
}

/**
 * @param {Column[]} columns
 * @param {any} row
 * @param {((row: any) => void) | undefined} choose
 */
function line(columns, row, choose) {
  const cells = columns.map((column, place) => {
    const value = column.of(row);
    if (place === 0) {
      const name = String(value);
      const button = () => el("button", { type: "button", class: "cx-link", click: () => choose?.(row) }, name);
      return el("th", { scope: "row" }, choose ? button() : name);
    }
    const text = typeof value === "string" ? value : column.share ? percent(value) : number(value);
    return el("td", { class: "cx-number" }, text);
  });
  return el("tr", {}, ...cells);
}

/**
 * @param {string | number | null | undefined} a
 * @param {string | number | null | undefined} b
 */
function order(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}
