// Files that a scenario names, such as traces: dropped on the page or chosen.

import { el } from "../../python/cxlab/page/dom.js";

/** Largest file, in bytes. */
const LARGEST = 100 * 2 ** 20;

/**
 * @param {import("./core.js").Core} core
 * @param {(text: string, wrong?: boolean) => void} say
 * @param {() => void} changed is called when a file is there, as mistakes may be gone
 */
export function files(core, say, changed) {
  const list = el("ul", { class: "lab-files" });

  /** @param {Iterable<File>} given */
  async function take(given) {
    for (const file of given) {
      if (file.size > LARGEST) {
        say(`${file.name}: found ${Math.round(file.size / 2 ** 20)} MiB; allowed in a browser: at most 100 MiB`, true);
        continue;
      }
      try {
        await core.provide(file.name, new Uint8Array(await file.arrayBuffer()));
        list.append(el("li", {}, `${file.name}, ${Math.ceil(file.size / 1024)} KiB`));
        say(`${file.name} is there for every path that ends in this name`);
        changed();
      } catch (error) {
        say(/** @type {Error} */ (error).message, true);
      }
    }
  }

  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    void take(event.dataTransfer?.files ?? []);
  });
  const chosen = el("input", { type: "file", id: "files", multiple: true, change: (event) => void take(event.target.files) });
  const element = el(
    "div",
    { class: "lab-drop" },
    el("label", { for: "files" }, "Traces and curves that the scenario names: drop them on the page, or choose. "),
    chosen,
    list,
  );
  return { element };
}

/**
 * The files of the folder that is served.
 * @param {import("./remote.js").RemoteCore} server
 */
export function folder(server) {
  const list = el("ul", { class: "lab-files" });
  void server.files().then(
    (names) => list.replaceChildren(...names.map((name) => el("li", {}, name))),
    () => {}, // the check of the scenario says what is wrong with the server
  );
  const details = el("details", {}, el("summary", {}, "Files of the folder, which a scenario may name"), list);
  return { element: el("div", { class: "lab-drop" }, details) };
}
