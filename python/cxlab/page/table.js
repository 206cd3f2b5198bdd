// A table whose rows can be sorted and filtered.

import { el } from "./dom.js";
import { filtered } from "./filter.js";
import { number, percent, withHalf } from "./format.js";

/**
 * @typedef {{ name: string, of: (row: any) => string | number | null | undefined, share?: boolean,
 *   half?: (row: any) => number | null | undefined, bar?: boolean }} Column
 * Of a column: its heading, and its value in a row. `share` shows a part of one in percent, `half` adds half of the
 * value's 95 % confidence interval, and `bar` draws a share as a bar beside its number.
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
  let [sorted, falling, filter] = [-1, false, ""];
  let wanted = (/** @type {string} */ _text) => true;
  const texts = columns.filter((column) => rows.every((row) => typeof column.of(row) === "string"));
  const heads = columns.map((column, place) => {
    const button = el("button", { type: "button", click: () => { falling = sorted === place ? !falling : true; sorted = place; show(); } }, column.name);
    return el("th", { scope: "col", class: texts.includes(column) ? "cx-text" : "", "aria-sort": "none" }, button);
  });
  const search = el("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": `Filter ${title}`,
    input: (event) => { filter = event.target.value.toLowerCase(); show(); },
  });

  const text = (/** @type {any} */ row) => texts.map((column) => column.of(row)).join(" ");
  const head = el("div", { class: "cx-sheet-head" }, el("h2", {}, title), rows.length > SHOWN ? search : null);
  const part = sheet(title, [head], heads, SHOWN, (row) => line(columns, row, choose), () => {
    const found = rows.filter((row) => wanted(text(row)) && text(row).toLowerCase().includes(filter));
    if (sorted >= 0) {
      const of = columns[sorted].of;
      found.sort((a, b) => order(of(a), of(b)) * (falling ? -1 : 1));
    }
    return found;
  });

  function show() {
    heads.forEach((one, place) =>
      one.setAttribute("aria-sort", place !== sorted ? "none" : falling ? "descending" : "ascending"),
    );
    part.show();
  }

  show();
  if (texts.length > 0) {
    filtered(part.element, (matches) => {
      wanted = matches;
      show();
    });
  }
  return part.element;
}

/**
 * A table below a heading, of which the first rows are shown, and all at a click.
 * @param {string} title
 * @param {HTMLElement[]} above the heading, and what else stands above the table
 * @param {HTMLElement[]} heads of the columns
 * @param {number} most rows that are shown at first
 * @param {(row: any) => HTMLElement} draw
 * @param {() => any[]} matching rows that are shown, in their order
 * @returns {{ element: HTMLElement, show: () => void }}
 */
export function sheet(title, above, heads, most, draw, matching) {
  let all = false;
  const body = el("tbody");
  const more = el("button", { type: "button", class: "cx-more", click: () => { all = true; show(); } });

  function show() {
    const found = matching();
    const hidden = all ? 0 : Math.max(0, found.length - most);
    body.replaceChildren(...found.slice(0, found.length - hidden).map(draw));
    if (found.length === 0) body.append(el("tr", {}, el("td", { class: "cx-soft", colspan: heads.length }, "no row matches")));
    more.textContent = `${number(hidden)} more`;
    more.hidden = hidden === 0;
  }

  const rows = el("table", { class: "cx-table" }, el("thead", {}, el("tr", {}, ...heads)), body);
  const element = el(
    "div",
    { class: "cx-sheet" },
    ...above,
    el("div", { class: "cx-wide", tabindex: 0, role: "region", "aria-label": title }, rows),
    more,
  );
  return { element, show };
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
    const text = typeof value === "string" ? value : shown(Number(value ?? NaN), column, row);
    const width = el("span", { class: "cx-gauge", "aria-hidden": "true" }, el("i", { style: `width:${Math.min(100, 100 * Number(value))}%` }));
    const kind = typeof value === "string" ? "" : "cx-number";
    return el("td", { class: kind }, ...(column.bar ? [width, el("span", { class: "cx-beside" }, text)] : [text]));
  });
  return el("tr", {}, ...cells);
}

/**
 * A number of a column, with its interval.
 * @param {number} value
 * @param {Column} column
 * @param {any} row
 */
function shown(value, column, row) {
  const half = column.half?.(row);
  if (!column.share) return withHalf(value, half);
  return half == null ? percent(value) : `${(100 * value).toFixed(1)} ± ${percent(half)}`;
}

/**
 * @param {string | number | null | undefined} a
 * @param {string | number | null | undefined} b
 */
function order(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
}
