// What the JSON Schema of scenarios says of a place in the text.

/** @typedef {{ name: string, schema: any, required: boolean }} Key */

export class Schema {
  /** @param {any} root */
  constructor(root) {
    this.root = root;
  }

  /**
   * The alternatives of a schema, without references.
   * @param {any} schema
   * @param {number} [depth]
   * @returns {any[]}
   */
  alternatives(schema, depth = 0) {
    if (!schema || depth > 12) return [];
    if (schema.$ref) {
      const { $ref, ...rest } = schema;
      const target = this.root.$defs[$ref.replace("#/$defs/", "")];
      return this.alternatives(target, depth + 1).map((one) => ({ ...one, ...rest }));
    }
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices) return choices.flatMap((/** @type {any} */ one) => this.alternatives(one, depth + 1));
    if (schema.allOf) {
      const { allOf, ...rest } = schema;
      return this.alternatives({ ...Object.assign({}, ...allOf), ...rest }, depth + 1);
    }
    return [schema];
  }

  /**
   * The schemas of a table: those whose `kind` is the one that is written, where there are such.
   * @param {string[]} path
   * @param {(path: string[]) => string | null} kindOf says which kind the text has at a path
   * @returns {any[]}
   */
  at(path, kindOf) {
    let found = this.alternatives(this.root);
    path.forEach((name, place) => {
      found = found.flatMap((schema) => {
        const next = schema.properties?.[name] ?? (typeof schema.additionalProperties === "object" ? schema.additionalProperties : null);
        return this.alternatives(next).flatMap((one) => (one.items ? this.alternatives(one.items) : [one]));
      });
      const kind = kindOf(path.slice(0, place + 1));
      const chosen = found.filter((schema) => schema.properties?.kind?.const === kind);
      if (kind && chosen.length > 0) found = chosen;
    });
    return found;
  }

  /**
   * @param {string[]} path
   * @param {(path: string[]) => string | null} kindOf
   * @returns {Key[]}
   */
  keys(path, kindOf) {
    /** @type {Map<string, Key>} */
    const keys = new Map();
    for (const schema of this.at(path, kindOf)) {
      for (const [name, one] of Object.entries(schema.properties ?? {})) {
        if (!keys.has(name)) keys.set(name, { name, schema: one, required: schema.required?.includes(name) ?? false });
      }
    }
    return [...keys.values()];
  }

  /**
   * Values that a key may have, where they can be listed.
   * @param {string[]} path of the table
   * @param {string} name
   * @param {(path: string[]) => string | null} kindOf
   * @returns {{ value: string, info: string }[]}
   */
  values(path, name, kindOf) {
    const found = new Map();
    const unchosen = name === "kind" ? (/** @type {string[]} */ at) => (at.length === path.length ? null : kindOf(at)) : kindOf;
    for (const table of this.at(path, unchosen)) {
      for (const schema of this.alternatives(table.properties?.[name])) {
        const listed = schema.enum ?? (schema.const === undefined ? [] : [schema.const]);
        const info = name === "kind" ? (table.description ?? "") : (schema.description ?? "");
        for (const value of listed) if (typeof value === "string") found.set(value, info);
        if (schema.type === "boolean") for (const value of ["true", "false"]) found.set(value, info);
        // An inline table begins with its kind.
        const kind = schema.properties?.kind?.const;
        if (kind) found.set(`{ kind = "${kind}" }`, schema.description ?? "");
      }
    }
    return [...found].map(([value, info]) => ({ value, info }));
  }

  /** Type, range and default of a key in a line. @param {any} schema */
  facts(schema) {
    const kinds = new Set();
    const parts = [];
    for (const one of this.alternatives(schema)) {
      for (const type of [one.type ?? []].flat()) if (type !== "null") kinds.add(type === "object" ? "table" : type);
      if (one.minimum !== undefined && one.minimum !== 0) parts.push(`at least ${one.minimum}`);
      if (one.maximum !== undefined) parts.push(`at most ${one.maximum}`);
    }
    const value = schema.default;
    if (value !== undefined && value !== null) parts.push(`default ${JSON.stringify(value)}`);
    return [[...kinds].join(" or "), ...new Set(parts)].filter(Boolean).join(", ");
  }
}

/**
 * Where a position of a TOML text is: the table, the key before `=`, and whether a value is meant.
 * @param {string} text
 * @param {number} position
 * @returns {{ path: string[], key: string | null, inValue: boolean, kindOf: (path: string[]) => string | null }}
 */
export function placeOf(text, position) {
  const before = text.slice(0, position);
  const lineStart = before.lastIndexOf("\n") + 1;
  let header = /** @type {string[]} */ ([]);
  for (const line of before.slice(0, lineStart).split("\n")) header = headerOf(line) ?? header;
  const own = headerOf(text.slice(lineStart).split("\n")[0]);
  const path = own ?? [...header];
  let key = /** @type {string | null} */ (null);
  let inValue = false;
  let word = "";
  /** @type {(string | null)[]} */
  const open = [];
  for (let at = lineStart; at < position && !own; at += 1) {
    const letter = text[at];
    if (letter === '"') {
      const end = text.indexOf('"', at + 1);
      if (end < 0 || end >= position) break;
      at = end;
    } else if (letter === "#") break;
    else if (letter === "=") {
      key = word.trim();
      inValue = true;
      word = "";
    } else if (letter === "{") {
      open.push(key);
      if (key) path.push(...key.split("."));
      [key, inValue, word] = [null, false, ""];
    } else if (letter === "}") {
      const closed = open.pop();
      if (closed) path.splice(path.length - closed.split(".").length);
      [inValue, word] = [false, ""];
    } else if (letter === ",") {
      [inValue, word] = [false, ""];
      if (open.length > 0) key = null;
    } else word += letter;
  }
  return { path, key, inValue, kindOf: (at) => kindIn(text, at, position, path) };
}

/** The table that a line begins. @param {string} line @returns {string[] | null} */
function headerOf(line) {
  const found = /^\s*\[{1,2}\s*([^\]]*?)\s*\]{1,2}\s*(#.*)?$/.exec(line);
  return found ? found[1].split(".").map((part) => part.trim()) : null;
}

/**
 * The `kind` that the text has at a path, near a position.
 * @param {string} text
 * @param {string[]} path
 * @param {number} position
 * @param {string[]} here the path of the position
 */
function kindIn(text, path, position, here) {
  const last = path[path.length - 1];
  const inline = [...text.matchAll(new RegExp(`(^|[\\s{,])${last}\\s*=\\s*\\{[^}\\n]*?\\bkind\\s*=\\s*"([^"]*)"`, "gm"))];
  const near = (/** @type {{ index: number }} */ a, /** @type {{ index: number }} */ b) => Math.abs(a.index - position) - Math.abs(b.index - position);
  const best = inline.sort(near)[0];
  // The table that the position is in may be written with a header of its own.
  if (path.join(".") === here.join(".")) {
    const begin = Math.max(text.lastIndexOf("\n[", position), text.lastIndexOf("{", position), 0);
    const rest = text.slice(begin + 1);
    const own = rest.slice(0, Math.max(0, rest.search(/\n\[|\}|$/)));
    const kind = /\bkind\s*=\s*"([^"]*)"/.exec(own);
    if (kind) return kind[1];
  }
  return best ? best[2] : null;
}
