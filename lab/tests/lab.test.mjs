// What a visitor does in the lab, in a real browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { launch, open } from "./browser.mjs";
import { serve } from "./serve.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const server = await serve(fileURLToPath(new URL("../dist/", import.meta.url)));
const browser = await launch();
const MINUTE = { timeout: 60_000 };

after(async () => {
  await browser.close();
  server.close();
});

/** @typedef {import("playwright-core").Page} Page */

/** @param {Page} page @param {string} text */
async function write(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}

/** @param {Page} page */
const text = (page) => page.evaluate(() => localStorage.getItem("cxlab-lab-scenario"));

/** @param {Page} page @param {RegExp} wanted */
async function says(page, wanted) {
  await page.waitForFunction((pattern) => new RegExp(pattern).test(document.querySelector(".lab-status")?.textContent ?? ""), wanted.source, MINUTE);
}

/** @param {Page} page */
async function run(page) {
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await says(page, /digest/);
}

/** @param {import("playwright-core").BrowserContextOptions} [options] */
async function lab(options) {
  const opened = await open(browser, options);
  await opened.page.goto(server.address);
  await opened.page.locator(".cx-topology svg").waitFor();
  return opened;
}

const SMALL = `name = "small"
measure = { requests = 3000 }
fabric = { topology = { kind = "ring", switches = 3 } }
hosts = [{ name = "host", workload = { kind = "uniform" } }]
devices = [{ name = "mem" }]
`;

test("a mistake is located while typing; mended, the scenario runs", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await write(page, SMALL.replace("switches", "switchs"));
  await page.locator(".cm-lintRange-error").waitFor();
  const problem = page.locator(".lab-problems li.lab-wrong");
  assert.match((await problem.first().textContent()) ?? "", /line 3.*switchs.*switches/s);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await says(page, /mistakes/);
  await write(page, SMALL);
  await page.waitForFunction(() => document.querySelectorAll(".cm-lintRange-error").length === 0);
  await run(page);
  for (const name of ["Where the mean latency goes", "Latency of served requests", "Links, by direction", "Slowest requests"]) {
    assert.equal(await page.getByText(name, { exact: true }).count(), 1, name);
  }
  assert.ok((await page.locator(".cx-fall i").count()) > 10);
  assert.ok((await page.locator("#panel-Result .cx-topology svg path").count()) > 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a click on a link says what the report says of it; tables sort and filter", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await run(page);
  await page.locator("#panel-Result .cx-topology path[stroke]").first().click({ force: true });
  assert.match((await page.locator("#panel-Result .lab-said").textContent()) ?? "", /utilization/);
  const first = page.locator("#panel-Result .cx-sheet").filter({ hasText: "Links, by direction" }).locator("tbody th").first();
  const before = await first.textContent();
  await page.getByRole("button", { name: "link", exact: true }).click();
  await page.getByRole("button", { name: "link", exact: true }).click();
  assert.notEqual(await first.textContent(), before);
  await page.getByLabel("Filter Links, by direction").fill("host3");
  assert.match((await first.textContent()) ?? "", /host3/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a run can be stopped, and what it measured is shown, marked partial", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await write(page, SMALL.replace("3000", "50_000_000"));
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await says(page, /[1-9][\d,]* requests/);
  await page.getByRole("button", { name: "Stop" }).click();
  await says(page, /stopped after/);
  assert.equal(await page.locator(".cx-partial").count(), 1);
  // That a probe finds the address revoked is an error to the browser alone.
  assert.deepEqual(errors.filter((error) => !error.includes("blob:") && !error.includes("ERR_FILE_NOT_FOUND")), []);
  await context.close();
});

test("two runs are compared, and a sweep draws latency under load", { timeout: 120_000 }, async () => {
  const { page, errors, context } = await lab();
  await write(page, SMALL);
  await run(page);
  await write(page, SMALL.replace("switches = 3", "switches = 5"));
  await run(page);
  await page.getByRole("tab", { name: "Compare" }).click();
  const panel = page.locator("#panel-Compare");
  assert.match((await panel.textContent()) ?? "", /mean latency, ns/);
  assert.match((await panel.locator("pre").textContent()) ?? "", /\+ fabric = .*switches = 5/);
  await page.getByRole("tab", { name: "Sweep" }).click();
  await page.locator("#sweep-values").fill("1, 4, 16");
  await page.getByRole("button", { name: "Sweep" }).click();
  await says(page, /3 runs are done/);
  assert.equal(await page.locator("#panel-Sweep tbody tr").count(), 3);
  assert.equal(await page.locator("#panel-Sweep circle").count(), 6);
  await page.locator("#sweep-key").fill("hosts[0].isue.outstanding");
  await page.getByRole("button", { name: "Sweep" }).click();
  await says(page, /isue/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a scenario is shared by its address, and kept over a reload", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await write(page, SMALL);
  await page.getByRole("button", { name: "Share" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#s="));
  const second = await open(browser);
  await second.page.goto(page.url());
  await second.page.waitForFunction(() => document.querySelector(".cm-content")?.textContent?.includes('"small"'));
  await page.evaluate(() => history.replaceState(null, "", "."));
  await page.reload();
  await page.locator(".cm-content").waitFor();
  assert.match((await page.locator(".cm-content").textContent()) ?? "", /"small"/);
  assert.deepEqual([...errors, ...second.errors], []);
  await context.close();
  await second.context.close();
});

test("a damaged or hostile address says so and changes nothing", MINUTE, async () => {
  const { deflateRawSync } = await import("node:zlib");
  const bomb = deflateRawSync(Buffer.alloc(64 << 20), { level: 9 }).toString("base64url");
  for (const [hash, wanted] of /** @type {[string, RegExp][]} */ ([["s=%%%", /damaged/], ["s=AAAA", /damaged/], [`s=${bomb}`, /more than 1 MiB/]])) {
    const { page, context } = await open(browser);
    await page.goto(`${server.address}/#${hash}`);
    await says(page, wanted);
    assert.match((await text(page)) ?? 'name = "pool"', /"pool"/);
    await context.close();
  }
});

test("names of a scenario are text, whatever they say", MINUTE, async () => {
  const { page, errors, context } = await lab();
  const name = "<img src=x onerror=alert(1)>";
  await write(page, SMALL.replace('"host"', JSON.stringify(name)).replace('"mem"', JSON.stringify("</script><b>")));
  page.on("dialog", () => errors.push("a dialog was opened"));
  await page.waitForTimeout(800);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForFunction(() => /digest|mistakes/.test(document.querySelector(".lab-status")?.textContent ?? ""));
  assert.equal(await page.locator("img[src=x], .lab-right b").count(), 0);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a dropped trace is replayed", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await page.getByLabel("Start from").selectOption("trace");
  await page.locator(".lab-problems li.lab-wrong").first().waitFor();
  assert.match((await page.locator(".lab-problems").textContent()) ?? "", /sqlite-index\.cxlt.*drop it on the page/s);
  const bytes = [...readFileSync(`${ROOT}/traces/sqlite-index.cxlt`)];
  await page.evaluate((data) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(data)], "sqlite-index.cxlt"));
    document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: transfer }));
  }, bytes);
  await page.waitForFunction(() => document.querySelectorAll(".lab-problems li.lab-wrong").length === 0);
  await run(page);
  assert.deepEqual(errors, []);
  await context.close();
});

test("keys and values are completed from the schema, and explained", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await page.waitForTimeout(1500);
  await write(page, '[fabric]\ntopology = { kind = "ring", sw');
  await page.keyboard.press("Control+Space");
  const options = page.locator(".cm-tooltip-autocomplete li");
  await options.first().waitFor();
  assert.match((await options.allTextContents()).join(" "), /switches/);
  await page.keyboard.press("Escape");
  await write(page, "[fabric]\nrouting = ");
  await page.keyboard.press("Control+Space");
  await options.first().waitFor();
  assert.match((await options.allTextContents()).join(" "), /"adaptive"/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("the keyboard alone writes, runs and reads", MINUTE, async () => {
  const { page, errors, context } = await lab();
  await page.locator(".cm-content").focus();
  await page.keyboard.press("ControlOrMeta+Enter");
  await says(page, /digest/);
  await page.getByRole("tab", { name: "Result" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("tab", { name: "Sweep" }).getAttribute("aria-selected"), "true");
  await page.keyboard.press("ArrowLeft");
  await page.locator("#panel-Result .cx-chart").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.match((await page.locator("#panel-Result .cx-readout").first().textContent()) ?? "", /latency, ns/);
  assert.deepEqual(errors, []);
  await context.close();
});

for (const [scheme, width] of /** @type {["light" | "dark", number][]} */ ([["light", 1400], ["dark", 1400], ["light", 390]])) {
  test(`axe finds nothing, ${scheme}, ${width} pixels wide`, MINUTE, async () => {
    const { page, errors, context } = await lab({ colorScheme: scheme, viewport: { width, height: 900 } });
    await run(page);
    for (const name of ["Result", "System", "Sweep", "Compare"]) {
      await page.getByRole("tab", { name }).click();
      const found = await new AxeBuilder({ page: /** @type {any} */ (page) }).analyze();
      const said = found.violations.map((one) => `${name}: ${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).join("; ")}`);
      assert.deepEqual(said, []);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `the page is ${wide} pixels wide`);
    if (process.env.CXLAB_SHOTS) {
      await page.getByRole("tab", { name: "Result" }).click();
      await page.screenshot({ path: `${process.env.CXLAB_SHOTS}/lab-${scheme}-${width}.png`, fullPage: true });
    }
    assert.deepEqual(errors, []);
    await context.close();
  });
}
