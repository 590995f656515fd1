import { existsSync } from "node:fs";
import { defineConfig } from "@playwright/test";
import { stepTimeout } from "./timeout";

// The browser in PALYRA_CHROMIUM, or Debian's package, or the browser of Playwright or the system.
const debian = "/usr/bin/chromium";
const chromium = process.env.PALYRA_CHROMIUM ?? (existsSync(debian) ? debian : undefined);

export default defineConfig({
  testDir: ".",
  outputDir: "../test-results",
  // Each worker has its own daemon and browser. Two workers suit two cores: most tests wait for timers.
  workers: 2,
  fullyParallel: false,
  timeout: 10 * stepTimeout,
  expect: { timeout: stepTimeout },
  forbidOnly: process.env.CI !== undefined,
  reporter: [["list"]],
  projects: [
    { name: "flows", testMatch: "*.spec.ts" },
    // Takes the screenshot in README; not part of the tests.
    { name: "picture", testMatch: "picture.ts" },
    // The console's part of make bench, which starts the gateway.
    { name: "speed", testMatch: "speed.ts", timeout: 30 * 60_000, use: { trace: "off" } },
  ],
  use: {
    // An impossible action fails before the timeout of the test.
    actionTimeout: stepTimeout,
    browserName: "chromium",
    launchOptions: {
      ...(chromium === undefined ? { channel: "chrome" } : { executablePath: chromium }),
      // Chromium cannot use its sandbox as root.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
    viewport: { width: 1280, height: 800 },
    // A trace has actions and requests. Screenshots and DOM snapshots would double the processor time of the tests.
    trace: { mode: "retain-on-failure", screenshots: false, snapshots: false },
    screenshot: "only-on-failure",
  },
});
