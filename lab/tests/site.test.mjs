// The built site: Lighthouse on pages of each kind, and no broken link.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { after, test } from "node:test";
import { launch as chrome } from "chrome-launcher";
import lighthouse, { desktopConfig } from "lighthouse";
import { serve } from "./serve.mjs";

const SITE = process.env.CXLAB_SITE;
const server = SITE ? await serve(resolve(SITE, "..")) : null;
after(() => server?.close());

const PAGES = ["", "guide/start/", "gallery/", "gallery/spine-leaf-16/", "papers/esf/", "reference/report/", "lab/index.html"];

for (const name of PAGES) {
  test(`Lighthouse gives 95 and more to /${name}`, { skip: !SITE, timeout: 120_000 }, async () => {
    const browser = await chrome({ chromeFlags: ["--headless", "--no-sandbox", "--disable-gpu"] });
    try {
      const version = relative(resolve(SITE ?? "", ".."), SITE ?? "");
      const result = await lighthouse(
        `${server?.address}/${version}/${name}`,
        { port: browser.port, onlyCategories: ["performance", "accessibility", "best-practices"], logLevel: "error" },
        desktopConfig,
      );
      for (const [category, { score }] of Object.entries(result?.lhr.categories ?? {})) {
        const failed = Object.values(result?.lhr.audits ?? {}).filter((audit) => audit.score !== null && audit.score < 0.9);
        assert.ok((score ?? 0) >= 0.95, `${category}: ${score}; ${failed.map((audit) => audit.id).join(", ")}`);
      }
    } finally {
      browser.kill();
    }
  });
}

test("every link and picture of the site is there", { skip: !SITE }, () => {
  const root = resolve(SITE ?? "");
  const pages = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".html") && !file.startsWith("rust/"));
  const broken = [];
  for (const page of pages) {
    const html = readFileSync(join(root, page), "utf8");
    for (const [, , target] of html.matchAll(/<[^>]+\s(href|src)="([^"]+)"/g)) {
      const path = decodeURIComponent(target.replaceAll("&amp;", "&").split(/[?#]/)[0]);
      if (path === "" || /^[a-z]+:/.test(path) || page === "404.html") continue;
      const file = resolve(root, dirname(page), path);
      const found = existsSync(file) && (!path.endsWith("/") || existsSync(join(file, "index.html")));
      if (!found) broken.push(`${page}: ${target}`);
    }
  }
  assert.deepEqual(broken, []);
});
