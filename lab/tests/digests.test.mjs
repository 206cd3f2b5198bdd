// The core computes in a browser what the command computes: the digest of every shipped scenario that
// can run there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, open } from "./browser.mjs";
import { serve } from "./serve.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CXLAB = process.env.CXLAB ?? join(ROOT, "target/release/cxlab");
/** Files that scenarios name, which a user of the page drops on it. */
const FILES = ["traces/sqlite-index.cxlt", "scenarios/curves/invented.csv"];
/** Windows are short; what they count must be the same. Scenarios whose windows are times stay as they are. */
const SHORT = "measure.requests=3000";

const server = await serve(ROOT);
const browser = await launch();
const { page } = await open(browser);

before(async () => {
  await page.goto(`${server.address}/lab/tests/core.html`);
  await page.waitForFunction(() => "core" in globalThis);
  for (const file of FILES) {
    const bytes = [...readFileSync(join(ROOT, file))];
    await page.evaluate(([name, data]) => globalThis.core.provide(name, new Uint8Array(data)), /** @type {any} */ ([file.replace("scenarios/", ""), bytes]));
  }
});

after(async () => {
  await browser.close();
  server.close();
});

/** @param {string} text */
function settings(text) {
  return /^(duration|sampling|precision)|^\[fleet\]|workload = \{ kind = "(stream-kernels|graph|nas)/m.test(text) ? [] : [SHORT];
}

for (const name of readdirSync(join(ROOT, "scenarios")).filter((one) => one.endsWith(".toml"))) {
  test(`${name} has the digest of the command`, { timeout: 300_000 }, async () => {
    const text = readFileSync(join(ROOT, "scenarios", name), "utf8");
    const set = settings(text);
    const out = mkdtempSync(join(tmpdir(), "cxlab-digest-"));
    try {
      const changes = set.flatMap((change) => ["--set", change]);
      execFileSync(CXLAB, ["run", `scenarios/${name}`, "--out", out, "--threads", "1", ...changes], { cwd: ROOT, stdio: "pipe" });
      const native = JSON.parse(readFileSync(join(out, "report.json"), "utf8"));
      const found = await page.evaluate(
        ([scenario, changed]) => JSON.parse(globalThis.core.simulate(scenario, JSON.stringify({ set: changed }), () => true)).report,
        /** @type {any} */ ([text, set]),
      );
      assert.equal(found.digest, native.digest);
      for (const report of [found, native]) {
        for (const key of ["run", "wall_seconds", "events_per_second"]) delete report[key];
        delete report.requests.per_wall_second;
      }
      assert.deepEqual(found, native);
    } finally {
      rmSync(out, { recursive: true });
    }
  });
}
