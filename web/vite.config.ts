import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// palyrad embeds what is built here, under the build tag palyraweb.
const embedded = "../internal/surface/console/assets/dist";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    outDir: embedded,
    emptyOutDir: true,
    // Nothing of a file is inlined: the content security policy has no place for it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    chunkSizeWarningLimit: 700,
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    restoreMocks: true,
    // The files of a worker share one page: a page for each file takes four fifths of the time. Tests restore the state that they change.
    isolate: false,
    // When a test gives up: at a load of 20 a second of work takes half a minute.
    testTimeout: 5 * 60_000,
    hookTimeout: 5 * 60_000,
    setupFiles: "src/test-setup.ts",
  },
});
