// Measures the console with many approvals and a long journal: goal 27 of make bench, which starts
// and fills the gateway and prints the results.
import { writeFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { decision, expect, expectRecorded, test } from "./fixtures";
import { Gateway } from "./gateway";
import type { Filtered } from "./stopwatch";
import { startStopwatch } from "./stopwatch";
import { countTransfer } from "./transfer";

const dir = process.env.PALYRA_SPEED_GATEWAY ?? "";
const out = process.env.PALYRA_SPEED_OUT ?? "";
const proposerUrl = process.env.PALYRA_SPEED_ASKER ?? "";
const approvalCount = Number(process.env.PALYRA_SPEED_ASKS ?? "0");
// The number of new approvals and decisions, within the limit of 60 per minute.
const samples = 50;

const figures: Record<string, number> = {};

/** Prints details that are not in the table. */
function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

test("the speed of the console", async ({ page }) => {
  if (dir === "" || out === "") throw new Error("run this with `make bench`, which starts the gateway");
  const gateway = await Gateway.attach(dir);
  await page.addInitScript(startStopwatch);
  const transferred = await countTransfer(page);
  await page.goto(await gateway.link());
  await expect(page.getByText(`of ${approvalCount.toLocaleString("en")} when`)).toBeVisible();
  figures.first_load = transferred() / 1024;

  await clearFocus(page);
  await measureFrames(page, "idle", () => page.waitForTimeout(3000));
  await measureInbox(page);
  await measureNewApprovals(page);
  await measureJournal(page);
  await measureVerification(page);
  await writeFile(out, JSON.stringify(figures));
});

/** Moves pointer and focus away from the list, so that rows may move. */
async function clearFocus(page: Page): Promise<void> {
  await page.mouse.move(640, 5);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
}

interface Span {
  name: string;
  /** The processor time, in microseconds. */
  tdur?: number;
  pid: number;
  tid: number;
  args: { name?: string };
}

/**
 * Records the longest frame during an action, and the longest processor time of a task of the
 * page's main thread, in milliseconds. The processor time is independent of the load of the machine.
 */
async function measureFrames(page: Page, name: string, action: () => Promise<unknown>): Promise<void> {
  const tracing = await page.context().newCDPSession(page);
  const names = new Map<string, string | undefined>();
  const longest = new Map<string, number>();
  tracing.on("Tracing.dataCollected", ({ value }) => {
    for (const span of value as unknown as Span[]) {
      const thread = `${span.pid}/${span.tid}`;
      if (span.name === "thread_name") names.set(thread, span.args.name);
      else if (span.name === "RunTask") longest.set(thread, Math.max(span.tdur ?? 0, longest.get(thread) ?? 0));
    }
  });
  const complete = new Promise((resolve) => tracing.once("Tracing.tracingComplete", resolve));
  await tracing.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["disabled-by-default-devtools.timeline", "__metadata"], excludedCategories: ["*"] } });
  await page.evaluate(() => window.stopwatch.frames());
  await action();
  const frame = await page.evaluate(() => window.stopwatch.longest());
  await tracing.send("Tracing.end");
  await complete;
  await tracing.detach();
  const task = Math.max(0, ...[...longest].flatMap(([thread, took]) => (names.get(thread) === "CrRendererMain" ? [took / 1000] : [])));
  figures[name] = frame;
  figures[`${name}_task`] = task;
  print(`${name}: longest frame ${frame.toFixed(0)} ms, longest task ${task.toFixed(0)} ms of the processor`);
}

const list = (page: Page) => page.locator("[data-scroller]");

/** Scrolls a list with the wheel for a number of turns. */
async function scroll(page: Page, turns: number): Promise<void> {
  await list(page).hover();
  for (let turn = 0; turn < turns; turn++) await page.mouse.wheel(0, 1500);
  for (let turn = 0; turn < 20; turn++) await page.mouse.wheel(0, -4000);
  // Jump to the end and back, as with the scroll bar.
  await list(page).evaluate((e) => e.scrollTo({ top: e.scrollHeight }));
  await page.waitForTimeout(500);
  await list(page).evaluate((e) => e.scrollTo({ top: 0 }));
  await page.waitForTimeout(500);
}

/** Enters filters one after the other and returns the measurements. */
async function filter(page: Page, lines: readonly string[]): Promise<Filtered[]> {
  const found: Filtered[] = [];
  for (const line of [...lines, ""]) {
    const box = page.getByRole("searchbox", { name: "Filter" });
    await box.fill(line);
    const done = page.evaluate((text) => window.stopwatch.filtered(text), line);
    await box.press("Enter");
    found.push({ ...(await done), line });
  }
  return found;
}

async function measureInbox(page: Page): Promise<void> {
  await measureFrames(page, "inbox_scroll", () => scroll(page, 500));
  print(`inbox: ${await page.getByText(/ displayed/).textContent()}`);
  let found: Filtered[] = [];
  await measureFrames(page, "inbox_filter", async () => {
    found = await filter(page, ["tool:fs.write", "requester:agent:agent-7", "-severity:low", "severity:high,critical -tool:process.run", "state:denied", "-requester:agent:agent-7 newer:2h", "newer:1m"]);
  });
  figures.inbox_filtered = report("inbox", found);
}

async function measureJournal(page: Page): Promise<void> {
  await page.goto(new URL("/journal", page.url()).href);
  await expect(page.locator("[data-row]").first()).toBeVisible();
  await measureFrames(page, "journal_scroll", () => scroll(page, 700));
  let found: Filtered[] = [];
  await measureFrames(page, "journal_filter", async () => {
    found = await filter(page, [
      "code:PAL-D",
      "code:PAL-A",
      "code:PAL-D101",
      "actor:agent:worker-7",
      "actor:agent:worker-7 code:PAL-D101",
      "actor:agent:nobody",
      "code:PAL-Z",
      "subject:01JD0000000000000000000007",
      "run:01JD0000000000000000000007",
      "session:01JD0000000000000000000003",
      "since:10m",
      "until:10m code:PAL-D102",
    ]);
  });
  figures.journal_filtered = report("journal", found);
}

/** Prints the time of each filter, and returns the 95th percentile. */
function report(screen: string, found: readonly Filtered[]): number {
  for (const { line, took, rows } of found) print(`${screen}: ${took.toFixed(0).padStart(5)} ms, ${rows} rows in sight: ${line === "" ? "no filter" : line}`);
  return percentile(
    found.map((f) => f.took),
    95,
  );
}

/**
 * Proposes to write a file as an agent. Returns the time by this machine's clock, because times
 * in the journal are from the gateway's monotonic clock.
 */
async function propose(path: string): Promise<number> {
  const reply = await fetch(proposerUrl, { method: "POST", body: new URLSearchParams({ path }) });
  if (!reply.ok) throw new Error(await reply.text());
  return ((await reply.json()) as { proposed: number }).proposed;
}

/** Measures new approvals and their decisions while all others are pending. */
async function measureNewApprovals(page: Page): Promise<void> {
  const shown: number[] = [];
  const echoed: number[] = [];
  for (let n = 0; n < samples; n++) {
    await clearFocus(page);
    const name = `new-${process.pid}-${n}.txt`;
    const seen = page.evaluate((text) => window.stopwatch.shown(text), name);
    const proposed = await propose(name);
    shown.push((await seen) - proposed);
    await page.getByRole("link", { name }).click();
    await expect(page.locator("[data-armed=true]")).toBeVisible();
    const echo = page.evaluate(() => window.stopwatch.echoed("The gateway recorded your approval"));
    await decision(page).getByRole("button", { name: "Allow once" }).click();
    echoed.push(await echo);
    await expectRecorded(page, "approval");
    await page.getByRole("button", { name: "← All approvals" }).click();
  }
  for (const [name, values] of Object.entries({ ask: shown, echo: echoed })) {
    figures[`${name}_p50`] = percentile(values, 50);
    figures[`${name}_p95`] = percentile(values, 95);
    print(`${name}: ${values.map((v) => v.toFixed(0)).join(" ")}`);
  }
}

async function measureVerification(page: Page): Promise<void> {
  await page.goto(new URL("/journal/verify", page.url()).href);
  const before = await processorTime(page);
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Verified: /)).toBeVisible({ timeout: 20 * 60_000 });
  const took = (await processorTime(page)) - before;
  const rate = (await page.getByText(/events verified in .* a second$/).textContent()) ?? "";
  const [, events = "", perSecond = ""] = /^([\d,]+) events .*, ([\d,]+) a second$/.exec(rate) ?? [];
  figures.verify = Number(perSecond.replaceAll(",", ""));
  figures.verify_cpu = (1e6 * took) / Number(events.replaceAll(",", ""));
  print(`${rate}; ${took.toFixed(1)} s of the processor in all of the browser`);
}

/** Returns the processor time of all processes of the browser, in seconds. */
async function processorTime(page: Page): Promise<number> {
  const browser = await page.context().browser()?.newBrowserCDPSession();
  if (browser === undefined) throw new Error("the page has no browser");
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
  await browser.detach();
  return processInfo.reduce((sum, each) => sum + each.cpuTime, 0);
}

/** Returns a percentile (nearest rank). */
function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(Math.ceil((p / 100) * sorted.length), 1) - 1] ?? 0;
}
