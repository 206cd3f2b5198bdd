// The page that `cxlab report` writes, in a real browser. CXLAB_PAGE is such a page, with a log of requests.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { launch, open } from "./browser.mjs";

const PAGE = process.env.CXLAB_PAGE;
const skip = PAGE ? false : "CXLAB_PAGE names no page";
const browser = PAGE ? await launch() : null;
after(() => browser?.close());

/** @param {import("playwright-core").BrowserContextOptions} [options] */
async function shown(options) {
  const opened = await open(/** @type {NonNullable<typeof browser>} */ (browser), options);
  const loaded = /** @type {string[]} */ ([]);
  opened.page.on("request", (request) => loaded.push(request.url()));
  const address = pathToFileURL(PAGE ?? "").href;
  await opened.page.goto(address);
  const sheet = (/** @type {string} */ title) => opened.page.locator(".cx-sheet").filter({ has: opened.page.getByRole("heading", { name: title, exact: true }) });
  return { ...opened, sheet, loaded, address };
}

/** @param {import("playwright-core").Locator} cells */
const numbers = async (cells) => (await cells.allTextContents()).map((text) => Number.parseFloat(text.replaceAll(",", "")));

test("a click on a link or on a box says what the report says of it", { skip }, async () => {
  const { page, errors, loaded, address, context } = await shown();
  await page.locator(".cx-near").first().click({ force: true });
  assert.match((await page.locator(".page-said h2").first().textContent()) ?? "", /->/);
  assert.match((await page.locator(".page-said").textContent()) ?? "", /utilization/);
  await page.locator(".cx-topology rect.cx-switch:has(title)").first().click({ force: true });
  assert.match((await page.locator(".page-said").textContent()) ?? "", /Links at /);
  assert.deepEqual(errors, []);
  assert.deepEqual(loaded, [address]);
  await context.close();
});

test("tables sort by a heading, and one filter applies to all parts", { skip }, async () => {
  const { page, sheet, context } = await shown();
  const links = sheet("Links, by direction");
  await links.getByRole("button", { name: "wait, ns" }).click();
  const waits = await numbers(links.locator("tbody td:nth-child(5)"));
  assert.ok(waits.length > 2);
  assert.deepEqual(waits, [...waits].sort((a, b) => b - a));
  const name = (await sheet("Devices").locator("tbody th").first().textContent()) ?? "";
  await page.locator("#filter").fill(name);
  for (const title of ["Links, by direction", "Devices", "Slowest requests"]) {
    for (const row of await sheet(title).locator("tbody th").allTextContents()) assert.ok(row.includes(name), `${title}: ${row}`);
  }
  assert.ok((await page.locator(".cx-dim").count()) > 0);
  await page.locator("#filter").fill("");
  assert.equal(await page.locator(".cx-dim").count(), 0);
  await context.close();
});

test("a chart zooms by dragging and by keys, and the picture by its buttons", { skip }, async () => {
  const { page, context } = await shown();
  const chart = page.locator(".cx-chart").first();
  const reset = page.locator(".cx-reset").first();
  const axis = () => chart.locator(".cx-axes text").allTextContents();
  const whole = await axis();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + 150, box.y + 90);
  await page.mouse.down();
  await page.mouse.move(box.x + 260, box.y + 100, { steps: 4 });
  await page.mouse.up();
  assert.notDeepEqual(await axis(), whole);
  await reset.click();
  assert.deepEqual(await axis(), whole);
  await chart.focus();
  await page.keyboard.press("+");
  assert.ok(await reset.isVisible());
  await page.keyboard.press("Escape");
  assert.deepEqual(await axis(), whole);
  const picture = page.locator(".cx-topology svg");
  const view = await picture.getAttribute("viewBox");
  await page.getByRole("button", { name: "Zoom in" }).click();
  assert.notEqual(await picture.getAttribute("viewBox"), view);
  await page.getByRole("button", { name: "Whole picture" }).click();
  assert.equal(await picture.getAttribute("viewBox"), view?.split(" ").map(Number).join(" "));
  await context.close();
});

test("a report is opened to compare with, and another file is refused", { skip }, async () => {
  const { page, errors, context } = await shown();
  const file = join(tmpdir(), `cxlab-no-report-${process.pid}.json`);
  writeFileSync(file, '{"format": 2}');
  await page.setInputFiles("#other", file);
  await page.waitForFunction(() => /found no report; allowed/.test(document.querySelector(".page-wrong")?.textContent ?? ""));
  writeFileSync(file, await page.evaluate(() => {
    const other = JSON.parse(document.getElementById("runs")?.textContent ?? "")[0].report;
    return JSON.stringify({ ...other, bandwidth_gb_per_s: { ...other.bandwidth_gb_per_s, total: 2 * other.bandwidth_gb_per_s.total } });
  }));
  await page.setInputFiles("#other", file);
  assert.match((await page.locator(".page-compare").textContent()) ?? "", /\+100\.0 %/);
  assert.equal(await page.locator(".page-wrong").textContent(), "");
  assert.deepEqual(errors, []);
  await context.close();
});

for (const [colorScheme, width] of /** @type {["light" | "dark", number][]} */ ([["light", 1240], ["dark", 1240], ["light", 390], ["dark", 390]])) {
  test(`axe finds nothing on the page of a report, ${colorScheme}, ${width} pixels wide`, { skip }, async () => {
    const { page, context } = await shown({ colorScheme, viewport: { width, height: 900 } });
    const { violations } = await new AxeBuilder({ page }).analyze();
    assert.deepEqual(violations.map((one) => `${one.id}: ${one.nodes[0].html}`), []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), true);
    await context.close();
  });
}
