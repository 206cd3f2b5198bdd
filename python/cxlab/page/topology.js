// The picture of a system: pan, zoom, and what a box or a link is about.

import { el } from "./dom.js";

/**
 * @param {string} text the picture as the core draws it, which is SVG without scripts
 * @param {(names: string[]) => void} choose is called with the names at a clicked link or box
 * @returns {HTMLElement}
 */
export function topology(text, choose) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  const drawing = document.importNode(parsed.documentElement, true);
  if (drawing.nodeName !== "svg") return el("p", {}, "the picture cannot be read");
  clean(drawing);
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
  drawing.addEventListener("pointerdown", (event) => {
    const pointer = /** @type {PointerEvent} */ (event);
    if (view.size < 1) held = { x: pointer.clientX, y: pointer.clientY };
  });
  drawing.addEventListener("pointermove", (event) => {
    if (!held) return;
    const pointer = /** @type {PointerEvent} */ (event);
    const scale = (width * view.size) / drawing.getBoundingClientRect().width;
    view.x -= (pointer.clientX - held.x) * scale;
    view.y -= (pointer.clientY - held.y) * scale;
    held = { x: pointer.clientX, y: pointer.clientY };
    show();
  });
  for (const end of ["pointerup", "pointerleave"]) drawing.addEventListener(end, () => (held = null));
  drawing.addEventListener("click", (event) => {
    const found = namesAt(/** @type {Element} */ (event.target), drawing);
    if (found.length > 0) choose(found);
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
  return frame;
}

/**
 * The names that the picture has at an element: both directions of a link, or a box.
 * @param {Element} target
 * @param {Element} drawing
 */
function namesAt(target, drawing) {
  for (let at = /** @type {Element | null} */ (target); at && at !== drawing; at = at.parentElement) {
    const title = [...at.children].find((child) => child.nodeName === "title")?.textContent;
    if (title) return title.split("\n").map((line) => line.split(": ")[0]);
  }
  if (target.nodeName === "text") return [target.textContent ?? ""];
  const next = target.nextElementSibling;
  return next?.nodeName === "text" ? [next.textContent ?? ""] : [];
}

/**
 * Removes what a picture of ours never has: scripts, handlers, and what leads elsewhere.
 * @param {Element} drawing
 */
function clean(drawing) {
  for (const element of [drawing, ...drawing.querySelectorAll("*")]) {
    if (/^(script|foreignObject|iframe|image|use|animate|set)$/i.test(element.nodeName)) {
      element.remove();
      continue;
    }
    for (const { name, value } of [...element.attributes]) {
      const leads = /^(xlink:)?href$/i.test(name) && !value.startsWith("#");
      if (/^on/i.test(name) || leads) element.removeAttribute(name);
    }
  }
}
