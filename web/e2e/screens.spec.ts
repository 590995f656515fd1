import type { Page } from "@playwright/test";
import { baseOf, screens } from "../src/routes";
import { expect, expectAccessible, test } from "./fixtures";
import type { Gateway } from "./gateway";
import { Publisher } from "./packages";

let filled: Promise<void> | undefined;

/** A gateway on which some work was done: of everything that has a screen there is something. */
function fill(gateway: Gateway): Promise<void> {
  filled ??= work(gateway);
  return filled;
}

async function work(gateway: Gateway): Promise<void> {
  const answered = async (named: string, tool: string, input: object, ...answer: string[]) => {
    const call = gateway.call(tool, input);
    await gateway.decide(named, answer);
    return call.done;
  };
  await answered("one.txt", "fs.write", { path: "one.txt", content: "one\n" }, "--allow", "timeboxed", "--for", "30m", "--match", "subject", "--uses", "3");
  await answered("two.txt", "fs.write", { path: "two.txt", content: "two\n" }, "--deny", "--reason", "not this one");
  const made = await answered("touch", "process.run", { argv: ["touch", "made-by-a-program.txt"] }, "--allow", "once");
  expect(made.code, made.err).toBe(0);
  await gateway.start(["vault", "put", "vault://global/github", "--host", "api.github.com:443", "--note", "for releases"], { input: "a-value-of-some-length\n" }).done;
  const publisher = await Publisher.begin(gateway, "screens.example");
  await gateway.palyra("skills", "install", await publisher.package("notes", "1.0.0", 'http = ["api.example.org:443"]'), "--yes", "--key-id", publisher.keyId);
  await gateway.palyra("tokens", "create", "ci", "--life", "30d");
  await gateway.palyra("run", "read the file");
  gateway.call("fs.write", { path: "waits.txt", content: "x\n" });
  await expect.poll(() => gateway.ask("waits.txt")).toBeDefined();
}

/** What shows that a screen has content, and what of a list can be opened. */
const content: Readonly<Record<string, { shows: string | RegExp; opens?: string | RegExp } | undefined>> = {
  "/approvals": { shows: "waits.txt", opens: /waits\.txt/ },
  "/grants": { shows: /one\.txt/ },
  "/runs": { shows: "read the file", opens: /read the file/ },
  "/calls": { shows: "process.run", opens: /process\.run/ },
  "/changes": { shows: "1 added", opens: /1 added/ },
  "/tools": { shows: "fs.read", opens: /fs\.read/ },
  "/policies": { shows: "defaults/10-ceilings.cedar" },
  "/servers": { shows: "No MCP server is behind this gateway" },
  "/skills": { shows: "notes", opens: /notes/ },
  "/journal": { shows: "PAL-X100", opens: /./ },
  "/journal/verify": { shows: "No key is pinned: this proves that the journal is whole, and not whose it is." },
  "/passkeys": { shows: "You have no passkey" },
  "/pairing": { shows: "No code is open" },
  "/sessions": { shows: "agent:helper", opens: /agent:helper/ },
  "/access": { shows: "Ask about somebody" },
  "/notifications": { shows: "ops" },
  "/settings": { shows: "state_dir" },
  "/members": { shows: "agent:helper", opens: /agent:helper/ },
  "/devices": { shows: /agent:helper/, opens: /./ },
  "/tokens": { shows: "ci" },
  "/vault": { shows: "vault://global/github", opens: /github/ },
  "/health": { shows: "ready" },
};

/** The screen is whole: nothing failed or loads, nothing is wider than a phone, and axe is content. */
async function expectWhole(page: Page): Promise<void> {
  const main = page.locator("main");
  await expect(main.getByText(/^Loading /)).toHaveCount(0);
  await expect(main.getByRole("heading", { level: 1 }).first()).toBeVisible();
  // The countdown has an alert of its own, which is said and not seen.
  await expect(main.locator("[role=alert]:not(.sr-only)")).toHaveCount(0);
  await expect(main.getByText(/you lack the permission|There is no such/)).toHaveCount(0);
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth), "width on a phone").toBeLessThanOrEqual(360);
  expect(await main.evaluate((element) => element.scrollWidth), "width of the screen on a phone").toBeLessThanOrEqual(360);
  await page.setViewportSize({ width: 1280, height: 800 });
}

// Tests with this tag run in the tier browser-matrix of make test-all, and in make test-browser.
for (const screen of screens) {
  const base = baseOf(screen.path);
  const expected = content[base];
  test(`${screen.label} opens with content, in both themes and on a phone`, { tag: "@matrix" }, async ({ inbox: page, gateway }) => {
    await fill(gateway);
    if (screen.nav === undefined) {
      await page.goto(new URL(base, page.url()).href);
    } else {
      await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: screen.label, exact: true }).click();
    }
    await expect(page).toHaveURL(new RegExp(`${base}(\\?.*)?$`));
    if (expected !== undefined) await expect(page.locator("main").getByText(expected.shows).first()).toBeVisible();
    await expectWhole(page);
    if (expected?.opens === undefined) return;
    await page.locator("main").getByRole("table").getByRole("link", { name: expected.opens }).first().click();
    await expect(page).toHaveURL(new RegExp(`${base}/.+`));
    await expectWhole(page);
    // What is open has an address that brings it back.
    const title = await page.locator("main").getByRole("heading", { level: 1 }).last().innerText();
    await page.reload();
    await expect(page.locator("main").getByRole("heading", { level: 1 }).last()).toHaveText(title);
  });
}

test("tools of agents are listed when they are asked for", { tag: "@matrix" }, async ({ inbox: page, gateway }) => {
  await fill(gateway);
  await page.goto(new URL("/tools", page.url()).href);
  const table = page.locator("main").getByRole("table");
  await expect(table.getByRole("link", { name: /fs\.read/ }).first()).toBeVisible();
  await expect(table.getByRole("link", { name: /claude-code\/Bash/ })).toHaveCount(0);
  await page.getByLabel("Tools of agents").check();
  await table.getByRole("link", { name: /claude-code\/Bash/ }).first().click();
  await expect(page.locator("main").getByRole("heading", { name: "claude-code/Bash" })).toBeVisible();
});

test("a run is started and watched from the console", async ({ inbox: page, gateway }) => {
  await fill(gateway);
  await page.goto(new URL("/runs", page.url()).href);
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByLabel("What should it do?").fill("read it again");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page).toHaveURL(/\/runs\/[0-9A-Z]{26}/);
  await expect(page.getByText("It says what it should. <b>Done.</b>").first()).toBeVisible();
});

test("a run that waits is talked to from the console, until that is all", async ({ inbox: page, gateway }) => {
  await fill(gateway);
  await page.goto(new URL("/runs", page.url()).href);
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByLabel("What should it do?").fill("read it, then wait for me");
  await page.getByLabel(/It waits for what you say next/).check();
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page.getByText("It says what it should. <b>Done.</b>").first()).toBeVisible();
  const message = page.getByLabel("Your message");
  await message.fill("now <b>this</b>\u202e");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await expect(page.getByText("I heard what you said.")).toBeVisible();
  await expect(page.getByText("now <b>this</b>")).toBeVisible();
  await expect(message).toHaveValue("");
  await page.getByRole("button", { name: "That is all" }).click();
  await expect(page.getByText("completed", { exact: true })).toBeVisible();
  await expect(message).toHaveCount(0);
  const { items } = JSON.parse(await gateway.palyra("runs", "list", "-o", "json")) as { items: { message: string; state: string }[] };
  expect(items.find((run) => run.message === "read it, then wait for me")?.state).toBe("completed");
});

test("a secret is shown to who asks for it, and the look is recorded", async ({ inbox: page, gateway }) => {
  await fill(gateway);
  await page.goto(new URL(`/vault/${encodeURIComponent("vault://global/github")}`, page.url()).href);
  await expect(page.getByText("for releases")).toBeVisible();
  await expect(page.getByText("a-value-of-some-length")).toHaveCount(0);
  await page.getByRole("button", { name: "Reveal", exact: true }).click();
  await page.getByRole("button", { name: "Reveal it" }).click();
  await expect(page.getByText("a-value-of-some-length")).toBeVisible();
  await page.getByRole("button", { name: "Close" }).last().click();
  await expect(page.getByText("a-value-of-some-length")).toHaveCount(0);
});
