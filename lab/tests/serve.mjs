// A static server for the tests, which packs what it sends as hosts of static sites do.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { createGzip } from "node:zlib";

const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/**
 * Serves a folder on a free port of this machine.
 * @param {string} folder
 * @returns {Promise<{ address: string, close: () => void }>}
 */
export function serve(folder) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://local").pathname);
    let file = join(folder, normalize(path));
    if (existsSync(file) && statSync(file).isDirectory()) file = join(file, "index.html");
    if (!file.startsWith(folder) || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    const type = TYPES[/** @type {keyof typeof TYPES} */ (extname(file))] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-encoding": "gzip", "cache-control": "max-age=3600" });
    createReadStream(file).pipe(createGzip({ level: 6 })).pipe(response);
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      resolve({ address: `http://127.0.0.1:${port}`, close: () => server.close() });
    });
  });
}
