// The engine behind `cxlab serve`, as the same promises as the core in the worker.

import { CoreError } from "./core.js";

const KEPT = "cxlab-serve-token";
/** Milliseconds between two questions how far a run is. */
const EVERY_MS = 250;

export class RemoteCore {
  constructor() {
    // The address has the token in its fragment, which browsers send nowhere.
    const given = /^#token=([\w-]+)$/.exec(location.hash);
    if (given) {
      sessionStorage.setItem(KEPT, given[1]);
      history.replaceState(null, "", location.pathname);
    }
    this.token = sessionStorage.getItem(KEPT) ?? "";
  }

  /**
   * @param {string} path
   * @param {any} [body] makes it a POST
   * @returns {Promise<Response>}
   */
  async fetch(path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(`./api/${path}`, options);
    if (response.ok) return response;
    const text = await response.text();
    let found = { error: text.trim() || `the server answers ${response.status}` };
    try {
      found = JSON.parse(text).failure ?? found;
    } catch {
      // It is a message.
    }
    throw new CoreError(found);
  }

  /** @param {string} path @param {any} [body] @returns {Promise<any>} */
  async json(path, body) {
    return (await this.fetch(path, body)).json();
  }

  /** @param {string} text */
  async check(text) {
    return (await this.json("check", { text })).ok;
  }

  /** @returns {Promise<any>} */
  schema() {
    return this.json("schema");
  }

  /** @param {string} text @returns {Promise<string>} */
  async draw(text) {
    return (await this.json("draw", { text })).ok;
  }

  /** @param {string} path @param {Uint8Array} _bytes @returns {Promise<void>} */
  async provide(path, _bytes) {
    throw new CoreError({ error: `${path}: put the file into the folder that is served` });
  }

  /** Files that a scenario may name. @returns {Promise<string[]>} */
  files() {
    return this.json("files");
  }

  /** @returns {Promise<any[]>} */
  history() {
    return this.json("runs");
  }

  /** @param {string} id @returns {Promise<{ text: string, result: any }>} */
  async kept(id) {
    const [text, result] = await Promise.all([this.fetch(`runs/${id}/scenario`), this.json(`runs/${id}/result`)]);
    return { text: await text.text(), result };
  }

  /**
   * @param {string} text
   * @param {{ set?: string[], seed?: number, threads?: number }} settings
   * @param {(found: any) => void} progress
   * @returns {{ result: Promise<any>, stop: () => void }}
   */
  run(text, settings, progress) {
    const started = this.json("runs", { text, ...settings });
    const ended = async () => {
      const { id } = await started;
      for (;;) {
        const run = await this.json(`runs/${id}`);
        if (run.progress) progress(run.progress);
        if (run.state === "done" || run.state === "stopped") return this.json(`runs/${id}/result`);
        if (run.failure) throw new CoreError(run.failure);
        await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      }
    };
    return { result: ended(), stop: () => void started.then(({ id }) => this.fetch(`runs/${id}/stop`, {})) };
  }
}
