// The picture of a system: pan, zoom, and what a box or a link is about.

import { el } from "./dom.js";
import { filtered } from "./filter.js";
import { safeSvg } from "./safe-svg.js";

/**
 * @param {string} text the picture as the core draws it
 * @param {(names: string[], members: string[]) => void} choose is called with the names at a clicked link or box,
 *   and with the names of its members if the box stands for a group
 * @returns {HTMLElement}
 */
export function topology(text, choose) {
  const picture = safeSvg(text);
  if (!picture) return el("p", {}, "the picture cannot be read");
  const drawing = picture;
  widen(drawing);
  const [, , width, height] = (drawing.getAttribute("viewBox") ?? "0 0 800 400").split(" ").map(Number);
  drawing.removeAttribute("width");
  drawing.removeAttribute("height");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", "The system: hosts, switches, devices and the links between them");
  const frame = el("div", { class: "cx-topology" });
  frame.style.setProperty("--shape", `${width} / ${height}`);
  const view = { x: 0, y: 0, size: 1 };

  function show() {
    view.size = Math.max(0.05, Math.min(1, view.size));
    view.x = Math.max(0, Math.min(width * (1 - view.size), view.x));
    view.y = Math.max(0, Math.min(height * (1 - view.size), view.y));
    drawing.setAttribute("viewBox", `${view.x} ${view.y} ${width * view.size} ${height * view.size}`);
  }

  /** Keeps the point at `right` and `down` (shares of the frame) where it is.
   * @param {number} factor @param {number} right @param {number} down */
  function zoom(factor, right = 0.5, down = 0.5) {
    const before = view.size;
    view.size = Math.max(0.05, Math.min(1, before * factor));
    view.x += width * (before - view.size) * right;
    view.y += height * (before - view.size) * down;
    show();
  }

  drawing.addEventListener(
    "wheel",
    (event) => {
      const wheel = /** @type {WheelEvent} */ (event);
      if (!wheel.ctrlKey && !wheel.metaKey) return; // the page scrolls
      wheel.preventDefault();
      const box = drawing.getBoundingClientRect();
      zoom(wheel.deltaY > 0 ? 1.15 : 1 / 1.15, (wheel.clientX - box.left) / box.width, (wheel.clientY - box.top) / box.height);
    },
    { passive: false },
  );
  let held = /** @type {{ x: number, y: number } | null} */ (null);
  let moved = false;
  drawing.addEventListener("pointerdown", (event) => {
    const pointer = /** @type {PointerEvent} */ (event);
    moved = false;
    if (view.size < 1) held = { x: pointer.clientX, y: pointer.clientY };
  });
  drawing.addEventListener("pointermove", (event) => {
    if (!held) return;
    const pointer = /** @type {PointerEvent} */ (event);
    moved ||= Math.hypot(pointer.clientX - held.x, pointer.clientY - held.y) > 3;
    if (!moved) return;
    const scale = (width * view.size) / drawing.getBoundingClientRect().width;
    view.x -= (pointer.clientX - held.x) * scale;
    view.y -= (pointer.clientY - held.y) * scale;
    held = { x: pointer.clientX, y: pointer.clientY };
    show();
  });
  for (const end of ["pointerup", "pointerleave"]) drawing.addEventListener(end, () => (held = null));
  drawing.addEventListener("click", (event) => {
    const found = namesAt(/** @type {Element} */ (event.target), drawing);
    if (moved || found.names.length === 0) return;
    for (const [part, names] of parts) part.classList.toggle("cx-chosen", names === found.names.join("\n"));
    choose(found.names, found.members);
  });
  const button = (/** @type {string} */ label, /** @type {string} */ sign, /** @type {() => void} */ act) =>
    el("button", { type: "button", title: label, "aria-label": label, click: act }, sign);
  const tools = el(
    "div",
    { class: "cx-tools" },
    button("Zoom in", "+", () => zoom(1 / 1.4)),
    button("Zoom out", "−", () => zoom(1.4)),
    button("Whole picture", "⤢", () => zoom(1e9)),
  );
  frame.append(drawing, tools);
  const parts = partsOf(drawing);
  filtered(frame, (matches) => {
    for (const [part, , text] of parts) part.classList.toggle("cx-dim", !matches(text));
  });
  return frame;
}

/**
 * Thin links are hard to point at: each gets a wide and unseen one above it, with its title.
 * @param {Element} drawing
 */
function widen(drawing) {
  for (const link of drawing.querySelectorAll("path")) {
    if (!link.querySelector("title")) continue;
    const wide = /** @type {SVGElement} */ (link.cloneNode(true));
    for (const name of ["stroke", "stroke-dasharray"]) wide.removeAttribute(name);
    wide.setAttribute("stroke-width", "10");
    wide.setAttribute("class", "cx-near");
    link.after(wide);
  }
}

/**
 * Boxes and links of a picture, with the names of each and with all text that a filter may look for.
 * @param {Element} drawing
 * @returns {[Element, string, string][]}
 */
function partsOf(drawing) {
  return [...drawing.querySelectorAll("title")].flatMap((title) => {
    const part = title.parentElement;
    if (!part) return [];
    const { names, members } = namesAt(part, drawing);
    return [/** @type {[Element, string, string]} */ ([part, names.join("\n"), [...names, ...members].join(" ")])];
  });
}

/**
 * The names that the picture has at an element: both directions of a link, a box, or a group and its members.
 * @param {Element} target
 * @param {Element} drawing
 * @returns {{ names: string[], members: string[] }}
 */
function namesAt(target, drawing) {
  for (let at = /** @type {Element | null} */ (target); at && at !== drawing; at = at.parentElement) {
    const title = [...at.children].find((child) => child.nodeName === "title")?.textContent;
    if (!title) continue;
    const group = [...(at.parentElement?.children ?? [])].find((child) => child.nodeName === "desc")?.textContent;
    // A line between groups stands for several links, of which the picture names the busiest.
    const busiest = /busiest: (\S+->\S+), [0-9.]+ % busy/.exec(title);
    const names = busiest ? [busiest[1]] : title.split("\n").map((line) => line.replace(/: [0-9.]+ % busy.*$/, ""));
    return { names, members: group ? group.split("\n") : [] };
  }
  if (target.nodeName === "text") return { names: [target.textContent ?? ""], members: [] };
  const next = target.nextElementSibling;
  return { names: next?.nodeName === "text" ? [next.textContent ?? ""] : [], members: [] };
}
