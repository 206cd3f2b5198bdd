// The core in its worker, as functions that promise.

/** @typedef {{ mistakes?: any[], text?: string, error?: string }} Failure */

/** A scenario with mistakes, or an error of the core. */
export class CoreError extends Error {
  /** @param {Failure} failure */
  constructor(failure) {
    super(failure.text ?? failure.error ?? "the core has failed");
    this.mistakes = failure.mistakes ?? [];
  }
}

export class Core {
  constructor() {
    this.next = 1;
    /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void, progress?: (found: any) => void }>} */
    this.waiting = new Map();
    /** @type {[string, Uint8Array][]} */
    this.files = [];
    this.worker = this.start();
  }

  start() {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.addEventListener("message", ({ data }) => {
      const call = this.waiting.get(data.id);
      if (!call) return;
      if (data.progress) return call.progress?.(data.progress);
      this.waiting.delete(data.id);
      if ("error" in data) call.reject(new CoreError(failure(data.error)));
      else call.resolve(data.ok);
    });
    worker.addEventListener("error", (event) => this.fail(event.message || "the worker has failed"));
    return worker;
  }

  /**
   * A core that has trapped (it ran out of memory, say) is replaced by a new one.
   * @param {string} why
   */
  fail(why) {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(new CoreError({ error: why }));
    this.waiting.clear();
    this.worker = this.start();
    for (const [path, bytes] of this.files) void this.call("provide", [path, bytes]);
  }

  /**
   * @param {string} call
   * @param {any[]} [args]
   * @param {{ progress?: (found: any) => void, stop?: string }} [more]
   * @returns {Promise<any>}
   */
  call(call, args = [], { progress, stop } = {}) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, progress });
      this.worker.postMessage({ id, call, args, stop });
    });
  }

  /** @param {string} text */
  check(text) {
    return this.call("check", [text]);
  }

  /** @returns {Promise<any>} */
  schema() {
    return this.call("schema");
  }

  /** @param {string} path @param {Uint8Array} bytes */
  async provide(path, bytes) {
    await this.call("provide", [path, bytes]);
    this.files.push([path, bytes]);
  }

  /** @param {string} text @param {string} [report] @returns {Promise<string>} */
  draw(text, report) {
    return this.call("draw", [text, report]);
  }

  /**
   * Starts a run. `stop` ends it; the result is what was measured until then.
   * @param {string} text
   * @param {{ set?: string[], seed?: number }} settings
   * @param {(found: any) => void} progress
   * @returns {{ result: Promise<any>, stop: () => void }}
   */
  run(text, settings, progress) {
    const address = URL.createObjectURL(new Blob(["run"]));
    const result = this.call("simulate", [text, settings], { progress, stop: address });
    const stop = () => URL.revokeObjectURL(address);
    void result.then(stop, stop);
    return { result, stop };
  }
}

/** @param {string} text @returns {Failure} */
function failure(text) {
  try {
    const found = JSON.parse(text);
    if (found && typeof found === "object") return found;
  } catch {
    // It is a message.
  }
  const trapped = /unreachable|memory|RuntimeError/i.test(text);
  return { error: trapped ? `the core has failed, out of memory or by an error of cxlab: ${text}` : text };
}
