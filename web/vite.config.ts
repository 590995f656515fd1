import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { recordModules } from "./linked.ts";

// palyrad embeds this directory under the build tag palyraweb.
const embedded = "../internal/surface/console/assets/dist";

export default defineConfig({
  plugins: [react(), tailwindcss(), recordModules("console")],
  worker: { plugins: () => [recordModules("worker")] },
  build: {
    outDir: embedded,
    emptyOutDir: true,
    // The content security policy does not allow inlined assets.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
    chunkSizeWarningLimit: 700,
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    restoreMocks: true,
    // The test files of a worker share one page: a page for each file would take four fifths of the total time. Tests restore the state that they change.
    isolate: false,
    // Timeouts for a loaded machine: at a load of 20, one second of work takes half a minute.
    testTimeout: 5 * 60_000,
    hookTimeout: 5 * 60_000,
    setupFiles: "src/test-setup.ts",
  },
});
