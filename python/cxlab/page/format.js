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

/**
 * A value with half of its 95 % confidence interval, which has two significant digits and decides those of the value.
 * @param {number} value
 * @param {number | null | undefined} half
 */
export function withHalf(value, half) {
  if (half == null || !Number.isFinite(half)) return number(value);
  const decimals = half === 0 ? 0 : Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(Math.abs(half)))));
  if (decimals === 0) return `${number(Math.abs(value) < 1000 ? value : Math.round(value))} ± ${Math.round(half).toLocaleString("en-US")}`;
  const fixed = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return `${value.toLocaleString("en-US", fixed)} ± ${half.toLocaleString("en-US", fixed)}`;
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
 * Share of the requests of a histogram up to each latency, in percent.
 * @param {[number, number][]} histogram upper bound of each bin, and its requests
 * @returns {[number, number][]}
 */
export function cumulative(histogram) {
  const bins = histogram.filter(([, count]) => count > 0);
  const whole = bins.reduce((sum, [, count]) => sum + count, 0);
  let sum = 0;
  return bins.map(([bound, count]) => [bound, (100 * (sum += count)) / whole]);
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

/**
 * Round steps of a logarithmic axis from `low`, which is positive, to `high`.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 * @returns {number[]}
 */
export function logTicks(low, high, most = 6) {
  for (const factors of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      found.push(...factors.map((factor) => Number((factor * 10 ** power).toPrecision(12))));
    }
    const inside = found.filter((at) => at >= low && at <= high);
    if (inside.length > 1 && inside.length <= most) return inside;
  }
  return ticks(low, high, most);
}
