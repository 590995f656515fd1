import { existsSync } from "node:fs";
import { defineConfig } from "@playwright/test";
import { patience } from "./patience";

// Debian's package, or the browser that PALYRA_CHROMIUM names; else one that Playwright
// or the system has.
const debian = "/usr/bin/chromium";
const chromium = process.env.PALYRA_CHROMIUM ?? (existsSync(debian) ? debian : undefined);

export default defineConfig({
  testDir: ".",
  outputDir: "../test-results",
  // Each worker has its own daemon and browser. Two fit two cores: most tests wait for timers.
  workers: 2,
  fullyParallel: false,
  timeout: 10 * patience,
  expect: { timeout: patience },
  forbidOnly: process.env.CI !== undefined,
  reporter: [["list"]],
  projects: [
    { name: "flows", testMatch: "*.spec.ts" },
    // Takes README's picture; no part of the tests.
    { name: "picture", testMatch: "picture.ts" },
    // The console's part of make bench, which starts the gateway that it takes.
    { name: "speed", testMatch: "speed.ts", timeout: 30 * 60_000, use: { trace: "off" } },
  ],
  use: {
    // An action that cannot happen fails before the timeout of the test.
    actionTimeout: patience,
    browserName: "chromium",
    launchOptions: {
      ...(chromium === undefined ? { channel: "chrome" } : { executablePath: chromium }),
      // Chromium has no sandbox of its own for root.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
    viewport: { width: 1280, height: 800 },
    // A trace has actions and requests. Screenshots and DOM snapshots would double the processor time of the tests.
    trace: { mode: "retain-on-failure", screenshots: false, snapshots: false },
    screenshot: "only-on-failure",
  },
});
