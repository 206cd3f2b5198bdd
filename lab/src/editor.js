// The editor of a scenario: TOML with completion, hover and our mistakes while typing.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { toml } from "@codemirror/legacy-modes/mode/toml";
import { lintGutter, lintKeymap, linter } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { el } from "../../python/cxlab/page/dom.js";
import { Schema, placeOf } from "./schema.js";

const COLOURS = HighlightStyle.define([
  { tag: tags.comment, color: "var(--cx-soft)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--lab-string)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--lab-number)" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--lab-key)" },
  { tag: tags.heading, color: "var(--cx-accent)", fontWeight: "600" },
]);

/**
 * @param {HTMLElement} parent
 * @param {string} text
 * @param {{ check: (text: string) => Promise<any>, changed: (text: string) => void, checked: (found: any) => void, run: () => void }} page
 */
export function editor(parent, text, page) {
  let schema = /** @type {Schema | null} */ (null);
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        bracketMatching(),
        closeBrackets(),
        StreamLanguage.define(toml),
        syntaxHighlighting(COLOURS),
        autocompletion({ override: [(context) => complete(schema, context)], icons: false }),
        hoverTooltip((at, place) => explain(schema, at, place)),
        linter((at) => mistakes(at, page), { delay: 250 }),
        lintGutter(),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "Scenario (TOML). Escape, then Tab, leaves the editor." }),
        EditorView.updateListener.of((update) => update.docChanged && page.changed(update.state.doc.toString())),
        keymap.of([
          { key: "Mod-Enter", run: () => (page.run(), true) },
          { key: "Ctrl-Space", run: startCompletion },
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...completionKeymap,
          ...lintKeymap,
        ]),
      ],
    }),
  });
  // A keyboard can scroll a long scenario without a cursor in it.
  view.scrollDOM.tabIndex = 0;
  return {
    text: () => view.state.doc.toString(),
    /** @param {string} next */
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    /** @param {any} found */
    use: (found) => (schema = new Schema(found)),
    /** Shows a line. @param {number} line */
    show: (line) => {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
      view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
      view.focus();
    },
  };
}

/**
 * Our mistakes and notes as marks in the text.
 * @param {EditorView} view
 * @param {{ check: (text: string) => Promise<any>, checked: (found: any) => void }} page
 */
async function mistakes(view, page) {
  const found = await page.check(view.state.doc.toString());
  page.checked(found);
  const doc = view.state.doc;
  return [...found.mistakes, ...found.notes].map((one) => {
    const line = doc.line(Math.max(1, Math.min(one.line ?? 1, doc.lines)));
    // A column counts characters, a position UTF-16 units.
    const column = [...line.text].slice(0, Math.max(0, (one.column ?? 1) - 1)).join("").length;
    const word = /^("[^"]*"|[^\s,={}\]]+)/.exec(line.text.slice(column))?.[0].length ?? 1;
    const from = Math.min(line.from + column, line.to);
    const wrong = one.level === "error";
    const message = one.help ? `${one.message}\n${one.help}` : one.message;
    return {
      from,
      to: Math.max(from, Math.min(from + word, line.to)),
      severity: /** @type {"error" | "info"} */ (wrong ? "error" : "info"),
      message,
    };
  });
}

/**
 * @param {Schema | null} schema
 * @param {import("@codemirror/autocomplete").CompletionContext} context
 */
function complete(schema, context) {
  if (!schema) return null;
  const text = context.state.doc.toString();
  const { path, key, inValue, kindOf } = placeOf(text, context.pos);
  const line = context.state.doc.lineAt(context.pos).text;
  if (/^\s*\[/.test(line)) return headers(schema, context);
  if (inValue && key) {
    const table = [...path, ...key.split(".").slice(0, -1)];
    const name = key.split(".").at(-1) ?? key;
    const word = context.matchBefore(/"?[\w-]*/);
    const options = schema.values(table, name, kindOf).map(({ value, info }) => {
      const bare = value.startsWith("{") || value === "true" || value === "false";
      return { label: bare ? value : `"${value}"`, info: info || undefined, type: "constant" };
    });
    if (options.length === 0 || (!word?.text && !context.explicit)) return null;
    const quoted = context.state.sliceDoc(context.pos, context.pos + 1) === '"';
    return { from: word?.from ?? context.pos, to: quoted ? context.pos + 1 : context.pos, options };
  }
  const word = context.matchBefore(/[\w.-]*/);
  if (!word?.text && !context.explicit) return null;
  const options = schema.keys(path, kindOf).map(({ name, schema: one, required }) => ({
    label: name,
    detail: schema.facts(one),
    info: one.description,
    type: "property",
    boost: required ? 1 : 0,
    apply: `${name} = `,
  }));
  return { from: word?.from ?? context.pos, options };
}

/**
 * @param {Schema} schema
 * @param {import("@codemirror/autocomplete").CompletionContext} context
 */
function headers(schema, context) {
  const word = context.matchBefore(/\[{1,2}[\w.]*/);
  if (!word) return null;
  const options = schema.keys([], () => null).flatMap(({ name, schema: one }) => {
    const kinds = schema.alternatives(one);
    if (kinds.some((kind) => kind.items)) return [{ label: `[[${name}]]`, info: one.description }];
    return kinds.some((kind) => kind.properties) ? [{ label: `[${name}]`, info: one.description }] : [];
  });
  const rest = context.state.doc.lineAt(context.pos).text.slice(context.pos - context.state.doc.lineAt(context.pos).from);
  const closing = /^\]{0,2}/.exec(rest)?.[0].length ?? 0;
  return { from: word.from, to: context.pos + closing, options, filter: true };
}

/**
 * @param {Schema | null} schema
 * @param {EditorView} view
 * @param {number} position
 */
function explain(schema, view, position) {
  if (!schema) return null;
  const word = view.state.wordAt(position);
  if (!word) return null;
  const name = view.state.sliceDoc(word.from, word.to);
  const { path, kindOf } = placeOf(view.state.doc.toString(), word.from);
  const known = schema.keys(path, kindOf).find((key) => key.name === name);
  if (!known) return null;
  return {
    pos: word.from,
    end: word.to,
    above: true,
    create: () => ({
      dom: el(
        "div",
        { class: "lab-hover" },
        el("code", {}, [...path, name].join(".")),
        el("p", {}, known.schema.description ?? ""),
        el("p", { class: "cx-soft" }, schema.facts(known.schema)),
      ),
    }),
  };
}
