// A browser for the tests: Debian's Chromium, driven by Playwright.

import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** @returns {Promise<import("playwright-core").Browser>} */
export function launch() {
  return chromium.launch({ executablePath: process.env.CHROME_PATH ?? "/usr/bin/chromium", args: FLAGS });
}

/**
 * A page whose errors are collected.
 * @param {import("playwright-core").Browser} browser
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 950 }, ...options });
  const page = await context.newPage();
  const errors = /** @type {string[]} */ ([]);
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("response", (response) => response.status() >= 400 && errors.push(`${response.status()} ${response.url()}`));
  return { context, page, errors };
}
