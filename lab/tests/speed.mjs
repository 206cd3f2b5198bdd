// How fast the core is in the browser: pairs of runs in turn, in Chromium and by the command on one thread.
// `npm run speed` prints a table; the machine should be idle.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, open } from "./browser.mjs";
import { serve } from "./serve.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CXLAB = process.env.CXLAB ?? join(ROOT, "target/release/cxlab");
const PAIRS = Number(process.env.PAIRS ?? 5);
/** Scenarios of different parts, with windows of a second or so. */
const RUNS = [
  ["spine-leaf-16", "measure.requests=1000000"],
  ["device-coherent", "measure.requests=400000"],
  ["dragonfly-12", "measure.requests=500000"],
  ["torus-16", "measure.requests=500000"],
  ["cached-ssd", "measure.requests=500000"],
  ["cohet-pages", "seed=1"],
];

const server = await serve(ROOT);
const browser = await launch();
const { page } = await open(browser);
await page.goto(`${server.address}/lab/tests/core.html`);
await page.waitForFunction(() => "core" in globalThis);

/** @param {number[]} values */
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

console.log("| scenario | command, s | browser, s | speed of the command | memory of the page, MiB |");
console.log("|---|---|---|---|---|");
for (const [name, change] of RUNS) {
  const text = readFileSync(join(ROOT, "scenarios", `${name}.toml`), "utf8");
  const [native, web] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  let bytes = 0;
  for (let pair = 0; pair < PAIRS; pair += 1) {
    const out = mkdtempSync(join(tmpdir(), "cxlab-speed-"));
    execFileSync(CXLAB, ["run", `scenarios/${name}.toml`, "--out", out, "--threads", "1", "--set", change], { cwd: ROOT, stdio: "pipe" });
    native.push(JSON.parse(readFileSync(join(out, "report.json"), "utf8")).wall_seconds);
    rmSync(out, { recursive: true });
    const found = await page.evaluate(
      ([scenario, set]) => {
        const { report } = JSON.parse(globalThis.core.simulate(scenario, JSON.stringify({ set: [set] }), () => true));
        return [report.wall_seconds, globalThis.memory.buffer.byteLength];
      },
      /** @type {any} */ ([text, change]),
    );
    web.push(found[0]);
    bytes = found[1];
  }
  const ratios = native.map((value, at) => value / web[at]);
  const share = (/** @type {number} */ value) => `${Math.round(100 * value)} %`;
  const spread = `${share(median(ratios))} (${share(Math.min(...ratios))} to ${share(Math.max(...ratios))})`;
  console.log(`| ${name} | ${median(native).toFixed(2)} | ${median(web).toFixed(2)} | ${spread} | ${Math.round(bytes / 2 ** 20)} |`);
}
await browser.close();
server.close();
