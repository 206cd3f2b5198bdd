// Numbers as a reader wants them.

/** Four significant digits, with separators of thousands. @param {number | null | undefined} value */
export function number(value) {
  if (value == null || !Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 1000) {
    return Math.round(value).toLocaleString("en-US");
  }
  if (size === 0) return "0";
  return size < 0.001 ? "0.000" : String(Number(value.toPrecision(4)));
}

/** @param {number | null | undefined} value a share of one */
export function percent(value) {
  return value == null ? "-" : `${(100 * value).toFixed(1)} %`;
}

/** A name of a report as words: `switch_queue_ps` is "switch queue". @param {string} name */
export function words(name) {
  return name.replace(/_(ps|ns)$/, "").replaceAll("_", " ");
}

/**
 * Round steps of an axis from `low` to `high`.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 * @returns {number[]}
 */
export function ticks(low, high, most = 6) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = power * ([1, 2, 5, 10].find((factor) => span / (power * factor) <= most) ?? 10);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) {
    found.push(Number(at.toPrecision(12)));
  }
  return found;
}
