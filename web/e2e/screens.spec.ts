import type { Page } from "@playwright/test";
import { baseOf, screens } from "../src/routes";
import { expect, expectAccessible, test } from "./fixtures";
import type { Gateway } from "./gateway";
import { Publisher } from "./packages";

let contentCreated: Promise<void> | undefined;

/** Creates content for every screen. */
function createContent(gateway: Gateway): Promise<void> {
  contentCreated ??= createAll(gateway);
  return contentCreated;
}

async function createAll(gateway: Gateway): Promise<void> {
  const decideCall = async (text: string, tool: string, input: object, ...answer: string[]) => {
    const call = gateway.call(tool, input);
    await gateway.decide(text, answer);
    return call.done;
  };
  await decideCall("one.txt", "fs.write", { path: "one.txt", content: "one\n" }, "--allow", "timeboxed", "--for", "30m", "--match", "subject", "--uses", "3");
  await decideCall("two.txt", "fs.write", { path: "two.txt", content: "two\n" }, "--deny", "--reason", "not this one");
  const made = await decideCall("touch", "process.run", { argv: ["touch", "made-by-a-program.txt"] }, "--allow", "once");
  expect(made.code, made.err).toBe(0);
  await gateway.start(["vault", "put", "vault://global/github", "--host", "api.github.com:443", "--note", "for releases"], { input: "a-value-of-some-length\n" }).done;
  const publisher = await Publisher.create(gateway, "screens.example");
  await gateway.palyra("skills", "install", await publisher.package("notes", "1.0.0", 'http = ["api.example.org:443"]'), "--yes", "--key-id", publisher.keyId);
  await gateway.palyra("tokens", "create", "ci", "--life", "30d");
  await gateway.palyra("run", "read the file");
  gateway.call("fs.write", { path: "waits.txt", content: "x\n" });
  await expect.poll(() => gateway.findApproval("waits.txt")).toBeDefined();
}

/** The expected content of each screen, and the link to open. */
const content: Readonly<Record<string, { text: string | RegExp; link?: string | RegExp } | undefined>> = {
  "/approvals": { text: "waits.txt", link: /waits\.txt/ },
  "/grants": { text: /one\.txt/ },
  "/runs": { text: "read the file", link: /read the file/ },
  "/calls": { text: "process.run", link: /process\.run/ },
  "/changes": { text: "1 added", link: /1 added/ },
  "/tools": { text: "fs.read", link: /fs\.read/ },
  "/policies": { text: "defaults/10-ceilings.cedar" },
  "/servers": { text: "No MCP servers" },
  "/skills": { text: "notes", link: /notes/ },
  "/journal": { text: "PAL-X100", link: /./ },
  "/journal/verify": { text: "No key is pinned: this verifies the integrity of the journal, but not its origin." },
  "/passkeys": { text: "You have no passkey" },
  "/pairing": { text: "No pairings" },
  "/sessions": { text: "agent:helper", link: /agent:helper/ },
  "/access": { text: "No check yet" },
  "/notifications": { text: "ops" },
  "/settings": { text: "state_dir" },
  "/members": { text: "agent:helper", link: /agent:helper/ },
  "/devices": { text: /agent:helper/, link: /./ },
  "/tokens": { text: "ci" },
  "/vault": { text: "vault://global/github", link: /github/ },
  "/health": { text: "ready" },
};

/** Expects a loaded screen without errors, not wider than a phone, and accessible. */
async function expectScreen(page: Page): Promise<void> {
  const main = page.locator("main");
  await expect(main.getByText(/^Loading /)).toHaveCount(0);
  await expect(main.getByRole("heading", { level: 1 }).first()).toBeVisible();
  // Ignore the alert of the countdown, which is only for screen readers.
  await expect(main.locator("[role=alert]:not(.sr-only)")).toHaveCount(0);
  await expect(main.getByText(/you lack the permission|^\w+ not found/)).toHaveCount(0);
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
    await createContent(gateway);
    if (screen.nav === undefined) {
      await page.goto(new URL(base, page.url()).href);
    } else {
      await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: screen.label, exact: true }).click();
    }
    await expect(page).toHaveURL(new RegExp(`${base}(\\?.*)?$`));
    if (expected !== undefined) await expect(page.locator("main").getByText(expected.text).first()).toBeVisible();
    await expectScreen(page);
    if (expected?.link === undefined) return;
    await page.locator("main").getByRole("table").getByRole("link", { name: expected.link }).first().click();
    await expect(page).toHaveURL(new RegExp(`${base}/.+`));
    await expectScreen(page);
    // The address restores the open detail.
    const title = await page.locator("main").getByRole("heading", { level: 1 }).last().innerText();
    await page.reload();
    await expect(page.locator("main").getByRole("heading", { level: 1 }).last()).toHaveText(title);
  });
}

test("tools of agents are listed on request", { tag: "@matrix" }, async ({ inbox: page, gateway }) => {
  await createContent(gateway);
  await page.goto(new URL("/tools", page.url()).href);
  const table = page.locator("main").getByRole("table");
  await expect(table.getByRole("link", { name: /fs\.read/ }).first()).toBeVisible();
  await expect(table.getByRole("link", { name: /claude-code\/Bash/ })).toHaveCount(0);
  await page.getByLabel("Tools of agents").check();
  await table.getByRole("link", { name: /claude-code\/Bash/ }).first().click();
  await expect(page.locator("main").getByRole("heading", { name: "claude-code/Bash" })).toBeVisible();
});

test("a run is started and watched from the console", async ({ inbox: page, gateway }) => {
  await createContent(gateway);
  await page.goto(new URL("/runs", page.url()).href);
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByLabel("Task").fill("read it again");
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page).toHaveURL(/\/runs\/[0-9A-Z]{26}/);
  await expect(page.getByText("It says what it should. <b>Done.</b>").first()).toBeVisible();
});

test("an interactive run receives messages until it is finished", async ({ inbox: page, gateway }) => {
  await createContent(gateway);
  await page.goto(new URL("/runs", page.url()).href);
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByLabel("Task").fill("read it, then wait for me");
  await page.getByLabel(/Wait for further messages/).check();
  await page.getByRole("button", { name: "Start the run" }).click();
  await expect(page.getByText("It says what it should. <b>Done.</b>").first()).toBeVisible();
  const message = page.getByLabel("Your message");
  await message.fill("now <b>this</b>\u202e");
  await expectAccessible(page);
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await expect(page.getByText("I heard what you said.")).toBeVisible();
  await expect(page.getByText("now <b>this</b>")).toBeVisible();
  await expect(message).toHaveValue("");
  await page.getByRole("button", { name: "Finish" }).click();
  await expect(page.getByText("completed", { exact: true })).toBeVisible();
  await expect(message).toHaveCount(0);
  const { items } = JSON.parse(await gateway.palyra("runs", "list", "-o", "json")) as { items: { message: string; state: string }[] };
  expect(items.find((run) => run.message === "read it, then wait for me")?.state).toBe("completed");
});

test("a secret is revealed on request", async ({ inbox: page, gateway }) => {
  await createContent(gateway);
  await page.goto(new URL(`/vault/${encodeURIComponent("vault://global/github")}`, page.url()).href);
  await expect(page.getByText("for releases")).toBeVisible();
  await expect(page.getByText("a-value-of-some-length")).toHaveCount(0);
  await page.getByRole("button", { name: "Reveal", exact: true }).click();
  await page.getByRole("button", { name: "Reveal value" }).click();
  await expect(page.getByText("a-value-of-some-length")).toBeVisible();
  await page.getByRole("button", { name: "Close" }).last().click();
  await expect(page.getByText("a-value-of-some-length")).toHaveCount(0);
});
