// Copies a picture element by element. Only what cxlab's own pictures consist of is kept.

import { svg } from "./dom.js";

const ELEMENTS = new Set([
  "svg", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "title", "desc",
]);
const ATTRIBUTES = new Set([
  "viewBox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "d", "points", "dx", "dy", "width",
  "height", "fill", "stroke", "opacity", "fill-opacity", "stroke-opacity", "stroke-width", "stroke-linecap",
  "stroke-linejoin", "stroke-dasharray", "font-family", "font-size", "font-weight", "text-anchor",
  "dominant-baseline", "transform", "class",
]);
/** Deepest element that is kept. Elements of cxlab's pictures are at most three deep. */
const DEEPEST = 16;

/**
 * A picture that may be inserted, or null if the text is no SVG. Styles are left out: page.css has them.
 * @param {string} text
 * @returns {SVGElement | null}
 */
export function safeSvg(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return root.localName === "svg" ? copyOf(root, 0) : null;
}

/**
 * @param {Element} source
 * @param {number} depth
 * @returns {SVGElement}
 */
function copyOf(source, depth) {
  const target = svg(source.localName);
  for (const { name, value } of source.attributes) {
    if (ATTRIBUTES.has(name) && !value.toLowerCase().includes("url")) target.setAttribute(name, value);
  }
  for (const child of source.childNodes) {
    if (child instanceof Text) target.append(child.data);
    if (child instanceof Element && ELEMENTS.has(child.localName) && depth < DEEPEST) {
      target.append(copyOf(child, depth + 1));
    }
  }
  return target;
}
