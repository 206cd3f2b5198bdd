import { defineConfig } from "vite";

export default defineConfig({
  // The page works below any folder of a server.
  base: "./",
  server: { fs: { allow: [".."] } },
  worker: { format: "es" },
  build: { outDir: "dist", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0 },
});
