// Runs the core, so that the page stays free. A call is {id, call, args}; the answers to it are
// {id, progress} while it runs, then {id, ok} or {id, error}.

import init, { check, draw, provide, schema, simulate, version } from "../pkg/cxlab.js";

/** @typedef {{ id: number, call: string, args: any[], stop?: string }} Call */

const ready = init({ module_or_path: new URL("../pkg/cxlab_bg.wasm", import.meta.url) });

/** @type {Record<string, (call: Call) => unknown>} */
const CALLS = {
  version: () => version(),
  schema: () => JSON.parse(schema()),
  check: ({ args: [text] }) => JSON.parse(check(text)),
  draw: ({ args: [text, report] }) => draw(text, report ?? undefined),
  provide: ({ args: [path, bytes] }) => provide(path, bytes),
  simulate: ({ id, args: [text, settings], stop }) => {
    const progress = (/** @type {string} */ found) => {
      postMessage({ id, progress: JSON.parse(found) });
      return goesOn(stop);
    };
    return JSON.parse(simulate(text, JSON.stringify(settings), progress));
  },
};

/**
 * Whether the page still wants the run. A worker that computes gets no messages; what it can see is
 * whether the page has revoked an address.
 * @param {string} [address]
 */
function goesOn(address) {
  if (!address) return true;
  try {
    const request = new XMLHttpRequest();
    request.open("GET", address, false);
    request.send();
    return true;
  } catch {
    return false;
  }
}

addEventListener("message", async (event) => {
  const call = /** @type {Call} */ (event.data);
  try {
    await ready;
    postMessage({ id: call.id, ok: CALLS[call.call](call) });
  } catch (error) {
    postMessage({ id: call.id, error: typeof error === "string" ? error : String(error) });
  }
});
