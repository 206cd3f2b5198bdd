// Lists of alike tables, written once by column names: what python/cxlab/report.py packs.

/**
 * A value in which every packed list is a list of tables again.
 * @param {any} value
 * @returns {any}
 */
export function unpacked(value) {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value.columns) && Array.isArray(value.rows)) {
    return value.rows.map((/** @type {any[]} */ row) => rowOf(value.columns, row));
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpacked(inner)]));
}

/**
 * A table from its values. A column is a path of keys; a value that is null is left out.
 * @param {string[][]} columns
 * @param {any[]} values
 */
function rowOf(columns, values) {
  const row = {};
  columns.forEach((path, place) => {
    if (values[place] === null) return;
    let inner = /** @type {Record<string, any>} */ (row);
    for (const key of path.slice(0, -1)) {
      if (!Object.hasOwn(inner, key)) set(inner, key, {});
      inner = inner[key];
    }
    set(inner, path[path.length - 1], unpacked(values[place]));
  });
  return row;
}

/**
 * Sets a key of a table, whatever it is called: an assignment to `__proto__` would set something else.
 * @param {Record<string, any>} table
 * @param {string} key
 * @param {any} value
 */
function set(table, key, value) {
  Object.defineProperty(table, key, { value, enumerable: true, configurable: true, writable: true });
}
