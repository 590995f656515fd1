// How fast the console is with many asks and a long journal: goal 27 of make bench, which
// starts the gateway, fills it and prints what this measures.
import { writeFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { decision, expect, expectRecorded, test } from "./fixtures";
import { Gateway } from "./gateway";
import type { Filtered } from "./stopwatch";
import { startStopwatch } from "./stopwatch";
import { countTransfer } from "./transfer";

const dir = process.env.PALYRA_SPEED_GATEWAY ?? "";
const out = process.env.PALYRA_SPEED_OUT ?? "";
const asker = process.env.PALYRA_SPEED_ASKER ?? "";
const asks = Number(process.env.PALYRA_SPEED_ASKS ?? "0");
// Of new asks and of decisions: within the cap of 60 a minute.
const samples = 50;

const figures: Record<string, number> = {};

/** What the table has no room for. */
function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

test("the speed of the console", async ({ page }) => {
  if (dir === "" || out === "") throw new Error("this runs within `make bench`, which makes the gateway that it takes");
  const gateway = await Gateway.attach(dir);
  await page.addInitScript(startStopwatch);
  const transferred = await countTransfer(page);
  await page.goto(await gateway.link());
  await expect(page.getByText(`of ${asks.toLocaleString("en")} when`)).toBeVisible();
  figures.first_load = transferred() / 1024;

  await aside(page);
  await watched(page, "idle", () => page.waitForTimeout(3000));
  await inbox(page);
  await newAsks(page);
  await journal(page);
  await verification(page);
  await writeFile(out, JSON.stringify(figures));
});

/** Nothing is pointed at and nothing has the focus: rows may move. */
async function aside(page: Page): Promise<void> {
  await page.mouse.move(640, 5);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
}

interface Span {
  name: string;
  /** How much of the processor it took, in microseconds. */
  tdur?: number;
  pid: number;
  tid: number;
  args: { name?: string };
}

/**
 * The longest frame while something is done, and the most processor time that one task
 * of the page's thread took meanwhile, in milliseconds. The second one is the page's own
 * doing, however much else the machine does.
 */
async function watched(page: Page, name: string, act: () => Promise<unknown>): Promise<void> {
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
  await act();
  const frame = await page.evaluate(() => window.stopwatch.longest());
  await tracing.send("Tracing.end");
  await complete;
  await tracing.detach();
  const task = Math.max(0, ...[...longest].flatMap(([thread, took]) => (names.get(thread) === "CrRendererMain" ? [took / 1000] : [])));
  figures[name] = frame;
  figures[`${name}_task`] = task;
  say(`${name}: longest frame ${frame.toFixed(0)} ms, longest task ${task.toFixed(0)} ms of the processor`);
}

const list = (page: Page) => page.locator("[data-scroller]");

/** Turns the wheel over a list, page after page, for at most so many turns. */
async function scroll(page: Page, turns: number): Promise<void> {
  await list(page).hover();
  for (let turn = 0; turn < turns; turn++) await page.mouse.wheel(0, 1500);
  for (let turn = 0; turn < 20; turn++) await page.mouse.wheel(0, -4000);
  // Once with the bar, as far as it goes.
  await list(page).evaluate((e) => e.scrollTo({ top: e.scrollHeight }));
  await page.waitForTimeout(500);
  await list(page).evaluate((e) => e.scrollTo({ top: 0 }));
  await page.waitForTimeout(500);
}

/** Types filters, one after the other, and returns what became of each. */
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

async function inbox(page: Page): Promise<void> {
  await watched(page, "inbox_scroll", () => scroll(page, 500));
  say(`inbox: ${await page.getByText(/ shown/).textContent()}`);
  let found: Filtered[] = [];
  await watched(page, "inbox_filter", async () => {
    found = await filter(page, ["tool:fs.write", "requester:agent:agent-7", "-severity:low", "severity:high,critical -tool:process.run", "state:denied", "-requester:agent:agent-7 newer:2h", "newer:1m"]);
  });
  figures.inbox_filtered = told("inbox", found);
}

async function journal(page: Page): Promise<void> {
  await page.goto(new URL("/journal", page.url()).href);
  await expect(page.locator("[data-row]").first()).toBeVisible();
  await watched(page, "journal_scroll", () => scroll(page, 700));
  let found: Filtered[] = [];
  await watched(page, "journal_filter", async () => {
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
  figures.journal_filtered = told("journal", found);
}

/** Prints how long each filter took, and returns what 95 of 100 do not exceed. */
function told(screen: string, found: readonly Filtered[]): number {
  for (const { line, took, rows } of found) say(`${screen}: ${took.toFixed(0).padStart(5)} ms, ${rows} rows in sight: ${line === "" ? "no filter" : line}`);
  return percentile(
    found.map((f) => f.took),
    95,
  );
}

/**
 * An agent proposes to write a file, and waits. Returns when it did, by this machine's
 * clock: what the record says is by the gateway's own, which never goes back.
 */
async function propose(path: string): Promise<number> {
  const reply = await fetch(asker, { method: "POST", body: new URLSearchParams({ path }) });
  if (!reply.ok) throw new Error(await reply.text());
  return ((await reply.json()) as { proposed: number }).proposed;
}

/** New asks while all the others wait, each answered. */
async function newAsks(page: Page): Promise<void> {
  const shown: number[] = [];
  const echoed: number[] = [];
  for (let n = 0; n < samples; n++) {
    await aside(page);
    const name = `new-${process.pid}-${n}.txt`;
    const seen = page.evaluate((text) => window.stopwatch.shown(text), name);
    const proposed = await propose(name);
    shown.push((await seen) - proposed);
    await page.getByRole("link", { name }).click();
    await expect(page.locator("[data-armed=true]")).toBeVisible();
    const echo = page.evaluate(() => window.stopwatch.echoed("The gateway recorded your yes"));
    await decision(page).getByRole("button", { name: "Allow once" }).click();
    echoed.push(await echo);
    await expectRecorded(page, "yes");
    await page.getByRole("button", { name: "← All approvals" }).click();
  }
  for (const [name, values] of Object.entries({ ask: shown, echo: echoed })) {
    figures[`${name}_p50`] = percentile(values, 50);
    figures[`${name}_p95`] = percentile(values, 95);
    say(`${name}: ${values.map((v) => v.toFixed(0)).join(" ")}`);
  }
}

async function verification(page: Page): Promise<void> {
  await page.goto(new URL("/journal/verify", page.url()).href);
  const before = await processorTime(page);
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Whole\./)).toBeVisible({ timeout: 20 * 60_000 });
  const took = (await processorTime(page)) - before;
  const rate = (await page.getByText(/events verified in .* a second$/).textContent()) ?? "";
  const [, events = "", perSecond = ""] = /^([\d,]+) events .*, ([\d,]+) a second$/.exec(rate) ?? [];
  figures.verify = Number(perSecond.replaceAll(",", ""));
  figures.verify_cpu = (1e6 * took) / Number(events.replaceAll(",", ""));
  say(`${rate}; ${took.toFixed(1)} s of the processor in all of the browser`);
}

/** What all processes of the browser took of the processor, in seconds. */
async function processorTime(page: Page): Promise<number> {
  const browser = await page.context().browser()?.newBrowserCDPSession();
  if (browser === undefined) throw new Error("there is no browser to ask");
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
  await browser.detach();
  return processInfo.reduce((sum, each) => sum + each.cpuTime, 0);
}

/** The smallest value that so many percent do not exceed. */
function percentile(values: readonly number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(Math.ceil((p / 100) * sorted.length), 1) - 1] ?? 0;
}
