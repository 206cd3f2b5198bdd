// Charts as SVG, each with a table of its numbers for those who do not see it.

import { el, svg } from "./dom.js";
import { number, ticks } from "./format.js";

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
 *   dots?: boolean }} Chart
 */

/**
 * Lines over a common axis. The pointer or the arrow keys read values.
 * @param {Chart} chart
 * @returns {HTMLElement}
 */
export function lines(chart) {
  const points = chart.series.flatMap((one) => one.points);
  if (points.length === 0) return el("p", { class: "cx-soft" }, "nothing was measured");
  const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])];
  const [left, right] = wide(least(xs), most(xs));
  const [low, high] = wide(chart.zero === false ? least(ys) : Math.min(0, least(ys)), most(ys));
  let width = 560;
  const x = (/** @type {number} */ value) => LEFT + ((value - left) / (right - left)) * (width - LEFT - RIGHT);
  const y = (/** @type {number} */ value) =>
    HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const drawing = svg("svg", {
    role: "img",
    tabindex: 0,
    "aria-label": `${chart.title}. The arrow keys read values.`,
    class: "cx-chart",
  });
  const draw = () => {
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawing.replaceChildren(axes(chart, { x, y, left, right, low, high, width }));
    chart.series.forEach((one, place) => {
      const colour = `cx-series-${place % COLOURS}`;
      drawing.append(svg("path", { class: `cx-line ${colour}`, d: path(one.points, x, y, chart.steps) }));
      if (chart.dots || one.points.length === 1) {
        for (const [at, value] of one.points) {
          drawing.append(svg("circle", { class: `cx-dot ${colour}`, cx: x(at), cy: y(value), r: 3 }));
        }
      }
    });
    drawing.append(mark);
  };
  const mark = svg("line", { class: "cx-mark", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const readout = el("output", { class: "cx-readout" });
  readable(drawing, mark, readout, chart, x);
  draw();
  // Letters keep their size on every screen, so the drawing is made for its width.
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width < 1) return;
    width = Math.max(240, Math.round(entry.contentRect.width));
    draw();
  }).observe(drawing);
  return el(
    "figure",
    { class: "cx-figure" },
    el("figcaption", {}, chart.title),
    chart.series.length > 1 ? legend(chart.series.map((one) => one.name)) : null,
    drawing,
    readout,
    asTable(chart),
  );
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
 * @param {{ x: (v: number) => number, y: (v: number) => number, left: number, right: number, low: number,
 *   high: number, width: number }} scale
 */
function axes(chart, { x, y, left, right, low, high, width }) {
  const group = svg("g", { class: "cx-axes", "aria-hidden": "true" });
  for (const at of ticks(low, high, 5)) {
    group.append(
      svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }, number(at)),
    );
  }
  for (const at of ticks(left, right, Math.max(2, Math.floor(width / 90)))) {
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
 * @param {(value: number) => number} x
 */
function readable(drawing, mark, readout, chart, x) {
  const all = [...new Set(chart.series.flatMap((one) => one.points.map(([at]) => at)))].sort((a, b) => a - b);
  let chosen = -1;
  const show = (/** @type {number} */ place) => {
    chosen = Math.max(0, Math.min(all.length - 1, place));
    const at = all[chosen];
    mark.setAttribute("x1", String(x(at)));
    mark.setAttribute("x2", String(x(at)));
    const values = chart.series.flatMap((one) => {
      const point = one.points.find(([there]) => there === at);
      return point ? [`${chart.series.length > 1 ? `${one.name} ` : ""}${number(point[1])}`] : [];
    });
    readout.textContent = `${chart.x} ${number(at)}: ${values.join(", ")}`;
  };
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = /** @type {PointerEvent} */ (event).clientX - box.left;
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
