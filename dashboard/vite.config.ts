// How the page is built: three files with fixed names, which the binary embeds.

import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./",
  build: {
    // light-dark() and nesting: the browsers of spring 2024 and later.
    target: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    // What others have written asks to be named wherever it goes.
    license: { fileName: "licenses.md" },
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
      },
    },
  },
  server: {
    // `npm run dev` beside a running gateway. The gateway refuses foreign origins, so it is told its own.
    proxy: { "/api": { target: "http://127.0.0.1:9900", changeOrigin: true, headers: { origin: "http://127.0.0.1:9900" } } },
  },
  test: { environment: "node", include: ["test/**/*.test.ts"] },
});
