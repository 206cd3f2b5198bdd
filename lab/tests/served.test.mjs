// The page as `cxlab serve` gives it: runs are the native engine's, and are there after a reload.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, open } from "./browser.mjs";

const COMMAND = fileURLToPath(new URL("../../.venv/bin/cxlab", import.meta.url));

test("a run on the server is kept over a reload", { skip: !existsSync(COMMAND) && "make python", timeout: 90_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "cxlab-served-"));
  writeFileSync(join(folder, "own.csv"), "address,op\n0x40,read\n");
  const server = spawn(COMMAND, ["serve", folder], { stdio: ["ignore", "pipe", "ignore"] });
  const browser = await launch();
  try {
    const address = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data).trim())));
    const { page, errors } = await open(browser);
    await page.goto(address);
    await page.locator(".cx-topology svg").waitFor();
    assert.doesNotMatch(page.url(), /token/);
    await page.getByLabel("threads").fill("1");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.waitForFunction(() => /digest/.test(document.querySelector(".lab-status")?.textContent ?? ""), null, { timeout: 60_000 });
    await page.reload();
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.waitForFunction(() => document.querySelectorAll("#before option").length === 1);
    await page.getByText("Files of the folder").click();
    await page.getByText("own.csv").waitFor();
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
    server.kill("SIGINT");
    await new Promise((resolve) => server.once("exit", resolve));
    rmSync(folder, { recursive: true });
  }
});
