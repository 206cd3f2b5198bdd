// Charts as SVG, each with a table of its numbers for those who do not see it.

import { el, svg } from "./dom.js";
import { logTicks, number, ticks } from "./format.js";

/** Colours that readers with any colour vision tell apart (Okabe and Ito), set in page.css. */
const COLOURS = 8;
const HEIGHT = 240;
const LEFT = 58;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 40;

/**
 * @typedef {{ name: string, points: [number, number][] }} Series
 * @typedef {{ title: string, x: string, y: string, series: Series[], zero?: boolean, steps?: boolean,
 *   dots?: boolean, filled?: boolean, log?: boolean, marks?: [string, number][] }} Chart
 * `steps` holds a value until the next, `filled` paints the area below, `log` has a logarithmic x axis where all x
 * are positive, and `marks` are named places on it.
 * @typedef {{ x: (value: number) => number, y: (value: number) => number, at: (pixel: number) => number,
 *   left: number, right: number, low: number, high: number, width: number, log: boolean }} Scale
 */

let charts = 0;

/**
 * Lines over a common axis. The pointer or the arrow keys read values; dragging, or plus and minus, zoom.
 * @param {Chart} chart
 * @returns {HTMLElement}
 */
export function lines(chart) {
  const points = chart.series.flatMap((one) => one.points);
  if (points.length === 0) return el("p", { class: "cx-soft" }, "nothing was measured");
  const xs = points.map((point) => point[0]);
  const whole = wide(least(xs), most(xs));
  const log = chart.log === true && whole[0] > 0;
  let view = whole;
  let scale = scaleOf(chart, view, 560, log);
  const clip = `cx-clip-${(charts += 1)}`;
  const drawing = svg("svg", {
    role: "img",
    tabindex: 0,
    "aria-label": `${chart.title}. The arrow keys read values, plus and minus zoom, Escape shows all.`,
    class: "cx-chart",
  });
  const mark = svg("line", { class: "cx-mark", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const readout = el("output", { class: "cx-readout" });
  const reset = el("button", { type: "button", class: "cx-reset", hidden: true, click: () => zoom(whole) }, "Whole axis");
  const draw = () => {
    drawing.setAttribute("viewBox", `0 0 ${scale.width} ${HEIGHT}`);
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    chart.series.forEach((one, place) => inside.append(...shapes(chart, one, place, scale)));
    for (const [, at] of chart.marks ?? []) {
      inside.append(svg("line", { class: "cx-place", x1: scale.x(at), x2: scale.x(at), y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    const window = svg("rect", { x: LEFT, y: TOP - 4, width: scale.width - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM + 5 });
    drawing.replaceChildren(svg("clipPath", { id: clip }, window), axes(chart, scale), inside, mark);
  };
  /** @param {[number, number]} wanted */
  function zoom([from, to]) {
    view = [Math.max(whole[0], from), Math.min(whole[1], to)];
    scale = scaleOf(chart, view, scale.width, log);
    reset.hidden = view[0] === whole[0] && view[1] === whole[1];
    draw();
  }
  readable(drawing, mark, readout, chart, () => scale);
  zoomable(drawing, () => scale, zoom, () => zoom(whole));
  draw();
  // Letters keep their size on every screen, so the drawing is made for its width.
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width < 1) return;
    scale = scaleOf(chart, view, Math.max(240, Math.round(entry.contentRect.width)), log);
    draw();
  }).observe(drawing);
  return el(
    "figure",
    { class: "cx-figure" },
    el("figcaption", {}, chart.title),
    chart.series.length > 1 ? legend(chart.series.map((one) => one.name)) : null,
    chart.marks ? el("p", { class: "cx-marks" }, chart.marks.map(([name, at]) => `${name} ${number(at)}`).join(", ")) : null,
    drawing,
    reset,
    readout,
    asTable(chart),
  );
}

/**
 * What turns values into places of the drawing. The y axis fits what is in view.
 * @param {Chart} chart
 * @param {[number, number]} view
 * @param {number} width
 * @param {boolean} log
 * @returns {Scale}
 */
function scaleOf(chart, [left, right], width, log) {
  const inView = chart.series.flatMap((one) => one.points.filter(([at]) => at >= left && at <= right).map((point) => point[1]));
  const ys = inView.length > 0 ? inView : chart.series.flatMap((one) => one.points.map((point) => point[1]));
  const [low, high] = wide(chart.zero === false ? least(ys) : Math.min(0, least(ys)), most(ys));
  const long = width - LEFT - RIGHT;
  const [from, to] = log ? [Math.log(left), Math.log(right)] : [left, right];
  return {
    x: (value) => LEFT + (((log ? Math.log(value) : value) - from) / (to - from)) * long,
    y: (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM),
    at: (pixel) => {
      const value = from + ((pixel - LEFT) / long) * (to - from);
      return log ? Math.exp(value) : value;
    },
    left, right, low, high, width, log,
  };
}

/**
 * The line of a series, with its area and dots.
 * @param {Chart} chart
 * @param {Series} one
 * @param {number} place number of the series
 * @param {Scale} scale
 */
function shapes(chart, one, place, { x, y, low }) {
  const colour = `cx-series-${place % COLOURS}`;
  const line = path(one.points, x, y, chart.steps);
  const found = [svg("path", { class: `cx-line ${colour}`, d: line })];
  if (chart.filled) {
    const [first, last] = [one.points[0][0], one.points[one.points.length - 1][0]];
    found.unshift(svg("path", { class: `cx-area cx-fill-${place % COLOURS}`, d: `${line}H${x(last)}V${y(low)}H${x(first)}Z` }));
  }
  if (chart.dots || one.points.length === 1) {
    found.push(...one.points.map(([at, value]) => svg("circle", { class: `cx-dot ${colour}`, cx: x(at), cy: y(value), r: 3 })));
  }
  return found;
}

/** @param {string[]} names */
export function legend(names) {
  const items = names.map((name, place) =>
    el("li", {}, el("i", { class: `cx-key cx-fill-${place % COLOURS}` }), name),
  );
  return el("ul", { class: "cx-legend" }, ...items);
}

/**
 * One bar, divided: what a whole consists of.
 * @param {string} title
 * @param {string} unit
 * @param {[string, number][]} parts
 * @returns {HTMLElement}
 */
export function shares(title, unit, parts) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  const widest = most(parts.map(([, value]) => value)) || 1;
  const rows = parts.map(([name, value]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", { class: "cx-number" }, number(value)),
      el("td", { class: "cx-number" }, whole > 0 ? `${((100 * value) / whole).toFixed(1)} %` : "-"),
      el(
        "td",
        { class: "cx-bar", "aria-hidden": "true" },
        el("i", { class: /queue|credits/.test(name) ? "cx-wait" : "", style: `width:${(100 * value) / widest}%` }),
      ),
    ),
  );
  return el(
    "table",
    { class: "cx-table cx-shares" },
    el("caption", {}, title),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "stage"), ...[unit, "share"].map((head) => el("th", { scope: "col" }, head)), el("td"))),
    el("tbody", {}, ...rows),
  );
}

/** @param {number[]} values */
function least(values) {
  return values.reduce((low, value) => Math.min(low, value), Infinity);
}

/** @param {number[]} values */
function most(values) {
  return values.reduce((high, value) => Math.max(high, value), -Infinity);
}

/**
 * A range that is not empty.
 * @param {number} low
 * @param {number} high
 * @returns {[number, number]}
 */
function wide(low, high) {
  return high > low ? [low, high] : [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
}

/**
 * @param {[number, number][]} points
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 * @param {boolean} [steps] whether a value holds until the next
 */
function path(points, x, y, steps) {
  const parts = points.map(([at, value], place) => {
    const [right, up] = [x(at).toFixed(1), y(value).toFixed(1)];
    if (place === 0) return `M${right} ${up}`;
    return steps ? `H${right}V${up}` : `L${right} ${up}`;
  });
  return parts.join("");
}

/**
 * @param {Chart} chart
 * @param {Scale} scale
 */
function axes(chart, { x, y, left, right, low, high, width, log }) {
  const group = svg("g", { class: "cx-axes", "aria-hidden": "true" });
  for (const at of ticks(low, high, 5)) {
    group.append(
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, number(at)),
    );
  }
  for (const at of (log ? logTicks : ticks)(left, right, Math.max(2, Math.floor(width / 90)))) {
    group.append(svg("text", { x: x(at), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, number(at)));
  }
  group.append(
    svg("text", { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, chart.x),
    svg("text", { x: 12, y: (TOP + HEIGHT - BOTTOM) / 2, "text-anchor": "middle",
      transform: `rotate(-90 12 ${(TOP + HEIGHT - BOTTOM) / 2})` }, chart.y),
  );
  return group;
}

/**
 * Lets the pointer and the arrow keys choose a point, whose values the readout says.
 * @param {SVGElement} drawing
 * @param {SVGElement} mark
 * @param {HTMLElement} readout
 * @param {Chart} chart
 * @param {() => Scale} scale
 */
function readable(drawing, mark, readout, chart, scale) {
  const all = [...new Set(chart.series.flatMap((one) => one.points.map(([at]) => at)))].sort((a, b) => a - b);
  let chosen = -1;
  const show = (/** @type {number} */ place) => {
    chosen = Math.max(0, Math.min(all.length - 1, place));
    const at = all[chosen];
    mark.setAttribute("x1", String(scale().x(at)));
    mark.setAttribute("x2", String(scale().x(at)));
    const values = chart.series.flatMap((one) => {
      const point = one.points.find(([there]) => there === at);
      return point ? [`${chart.series.length > 1 ? `${one.name} ` : ""}${number(point[1])}`] : [];
    });
    readout.textContent = `${chart.x} ${number(at)}: ${values.join(", ")}`;
  };
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = /** @type {PointerEvent} */ (event).clientX - box.left;
    const { x } = scale();
    let best = 0;
    for (let place = 1; place < all.length; place += 1) {
      if (Math.abs(x(all[place]) - at) < Math.abs(x(all[best]) - at)) best = place;
    }
    show(best);
  });
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {KeyboardEvent} */ (event).key];
    if (step) {
      event.preventDefault();
      show(chosen + step);
    }
  });
}

/**
 * Lets a drag of the mouse choose a part of the x axis, and plus and minus zoom about its middle.
 * @param {SVGElement} drawing
 * @param {() => Scale} scale
 * @param {(range: [number, number]) => void} zoom
 * @param {() => void} reset
 */
function zoomable(drawing, scale, zoom, reset) {
  const pixel = (/** @type {Event} */ event) =>
    /** @type {PointerEvent} */ (event).clientX - drawing.getBoundingClientRect().left;
  const box = svg("rect", { class: "cx-selection", y: TOP, height: HEIGHT - TOP - BOTTOM });
  let start = /** @type {number | null} */ (null);
  drawing.addEventListener("pointerdown", (event) => {
    const pointer = /** @type {PointerEvent} */ (event);
    if (pointer.pointerType === "mouse" && pointer.button === 0) start = pixel(event);
  });
  drawing.addEventListener("pointermove", (event) => {
    if (start === null || Math.abs(pixel(event) - start) < 6) return;
    box.setAttribute("x", String(Math.min(start, pixel(event))));
    box.setAttribute("width", String(Math.abs(pixel(event) - start)));
    drawing.append(box);
  });
  drawing.addEventListener("pointerup", (event) => {
    const [from, to] = [start ?? 0, pixel(event)].sort((a, b) => a - b);
    if (start !== null && to - from > 6) zoom([scale().at(from), scale().at(to)]);
    start = null;
    box.remove();
  });
  drawing.addEventListener("pointerleave", () => {
    start = null;
    box.remove();
  });
  drawing.addEventListener("dblclick", reset);
  drawing.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey } = /** @type {KeyboardEvent} */ (event);
    if (ctrlKey || metaKey || !["+", "=", "-", "Escape"].includes(key)) return;
    event.preventDefault();
    const { width, at } = scale();
    const [middle, half] = [(LEFT + width - RIGHT) / 2, (width - LEFT - RIGHT) / 2];
    const part = key === "-" ? 2 : 0.5;
    if (key === "Escape") reset();
    else zoom([at(middle - half * part), at(middle + half * part)]);
  });
}

/** Rows of a chart's table: those of long charts would not be read. */
const ROWS = 400;

/** @param {Chart} chart */
function asTable(chart) {
  const details = el("details", { class: "cx-numbers" }, el("summary", {}, "Numbers"));
  details.addEventListener(
    "toggle",
    () => {
      const head = el("tr", {}, ...[...(chart.series.length > 1 ? ["series"] : []), chart.x, chart.y].map((text) => el("th", { scope: "col" }, text)));
      const rows = chart.series.flatMap((one) =>
        one.points.slice(0, ROWS).map(([at, value]) =>
          el(
            "tr",
            {},
            chart.series.length > 1 ? el("td", {}, one.name) : null,
            el("td", { class: "cx-number" }, number(at)),
            el("td", { class: "cx-number" }, number(value)),
          ),
        ),
      );
      details.append(el("table", { class: "cx-table" }, el("thead", {}, head), el("tbody", {}, ...rows)));
    },
    { once: true },
  );
  return details;
}
