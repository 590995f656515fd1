import type { Locator, Page } from "@playwright/test";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { arrive, expect, expectAccessible, test } from "./fixtures";
import { Gateway, programs } from "./gateway";
import { Publisher } from "./packages";

const main = (page: Page): Locator => page.getByRole("main");
const dialog = (page: Page): Locator => page.getByRole("dialog");

/** Goes to the list of skills and chooses a package to install. */
async function choose(page: Page, file: string): Promise<void> {
  await page.goto(new URL("/skills", page.url()).href);
  await page.getByRole("button", { name: "Install a skill" }).click();
  await dialog(page).getByLabel("Package").setInputFiles(file);
}

/** Presses a button somewhere and answers the question that it asks. */
async function act(where: Locator, label: string, does: string, reason?: string): Promise<void> {
  const asks = dialog(where.page());
  await where.getByRole("button", { name: label, exact: true }).click();
  if (reason !== undefined) await asks.getByLabel("Reason (kept in the journal)").fill(reason);
  await asks.getByRole("button", { name: does }).click();
  await expect(asks).toHaveCount(0);
}

/** What the skill's tool says to a text. It asks for nothing, so that policy asks nobody. */
async function echoed(gateway: Gateway, text: string): Promise<string> {
  const { code, out, err } = await gateway.call("echo/say", { text }).done;
  expect(code, err).toBe(0);
  return out;
}

test("a skill is looked at, installed by its key, quarantined, updated, distrusted and removed", async ({ inbox: page, gateway }) => {
  // Without the worker nothing runs, and all else is as it is.
  const runs = existsSync(join(programs, "palyra-wasm"));
  const publisher = await Publisher.begin(gateway, "example.org");
  const first = await publisher.package("echo", "1.0.0");

  // A byte of the package is another one than was signed.
  const bytes = await readFile(first);
  const at = bytes.indexOf("what it hears");
  bytes.write("What", at);
  await writeFile(join(gateway.dir, "tampered.palyra-skill"), bytes);
  await choose(page, join(gateway.dir, "tampered.palyra-skill"));
  await expect(dialog(page).getByRole("alert")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: /install this/i })).toHaveCount(0);

  // What was signed, by a key that nobody knows yet.
  await dialog(page).getByLabel("Package").setInputFiles(first);
  await expect(dialog(page).getByText("The publisher is new here")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: `Copy ${publisher.keyId}` })).toBeVisible();
  await expect(dialog(page).getByRole("listitem", { name: "echo/say" })).toContainText("<script>alert(1)</script>");
  await expectAccessible(page);
  const yes = dialog(page).getByRole("button", { name: "Trust the key and install this" });
  // A button that is off can be reached, and does nothing.
  await yes.click({ force: true });
  await expect(yes).toHaveAccessibleDescription("Compare the key first.");
  expect(await gateway.palyra("skills", "list")).not.toContain("echo");
  await dialog(page).getByLabel(/I compared the id of the key/).check();
  await yes.click();
  await expect(page).toHaveURL(/\/skills\/echo\?version=1\.0\.0$/);
  await expect(main(page).getByText("active", { exact: true }).first()).toBeVisible();
  if (runs) expect(await echoed(gateway, "hello")).toMatch(/"text": ?"hello"/);

  // It is kept from running, and let run again from a terminal, which the page hears.
  await act(main(page), "Quarantine", "Quarantine the version", "it talks too much");
  await expect(main(page).getByText("quarantined", { exact: true }).first()).toBeVisible();
  await expect(main(page).getByText("it talks too much").first()).toBeVisible();
  const refused = await gateway.call("echo/say", { text: "x" }).done;
  expect(refused.code).not.toBe(0);
  expect(refused.err + refused.out).toContain("quarantined");
  await gateway.palyra("skills", "enable", "echo@1.0.0");
  await expect(main(page).getByText("quarantined", { exact: true })).toHaveCount(0);
  await expect(main(page).getByText("active", { exact: true }).first()).toBeVisible();

  // An update says what it asks for beyond what runs now.
  await choose(page, await publisher.package("echo", "1.1.0", 'http = ["api.example.org:443"]'));
  await expect(dialog(page).getByText("Beyond what runs now it asks for")).toBeVisible();
  await expect(dialog(page).getByText("api.example.org:443").first()).toBeVisible();
  await expect(dialog(page).getByText("SKILL_UNUSED_CAPABILITY")).toBeVisible();
  await expect(dialog(page).getByText("The publisher is new here")).toHaveCount(0);
  await dialog(page).getByRole("button", { name: "Install this" }).click();
  await expect(page).toHaveURL(/version=1\.1\.0$/);
  const versions = main(page).getByRole("list", { name: "Versions" });
  await expect(versions.getByRole("listitem").filter({ hasText: "1.1.0" })).toContainText("active");
  await expect(versions.getByRole("listitem").filter({ hasText: "1.0.0" })).toContainText("not current");
  await versions.getByRole("link", { name: "1.0.0" }).click();
  await expect(main(page).getByText("Its tools cannot be called")).toBeVisible();

  // Another key under the same name is no update.
  const other = await Publisher.begin(gateway, "example.org");
  await choose(page, await other.package("echo", "1.2.0"));
  await expect(dialog(page).getByText("It cannot be installed")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: /install this/i })).toHaveCount(0);
  await dialog(page).getByRole("button", { name: "Leave it" }).click();

  // The list, and the publishers.
  await expect(main(page).getByRole("row", { name: /echo.*1\.1\.0.*active/ })).toContainText("network");
  await page.getByRole("tab", { name: "Publishers" }).click();
  const theirs = main(page).getByRole("list", { name: "Publishers" }).getByRole("listitem", { name: "example.org" });
  await expect(theirs.getByText("trusted", { exact: true })).toBeVisible();
  await act(theirs, "Distrust", "Distrust the publisher");
  await expect(theirs.getByText("distrusted", { exact: true })).toBeVisible();
  await expectAccessible(page);
  const list = JSON.parse(await gateway.palyra("skills", "list", "-o", "json")) as { items: { skill: string; status: string }[] };
  expect(list.items.flatMap(({ skill, status }) => (skill === "echo" ? [status] : []))).toEqual(["quarantined", "quarantined"]);
  await act(theirs, "Trust again", "Trust this key");
  await expect(theirs.getByText("trusted", { exact: true })).toBeVisible();

  await page.getByRole("tab", { name: "Installed" }).click();
  await main(page).getByRole("row", { name: /echo.*1\.1\.0.*quarantined/ }).getByRole("link").click();
  await act(main(page), "Remove", "Remove the version");
  await main(page).getByRole("row", { name: /echo.*1\.0\.0/ }).getByRole("link").click();
  await act(main(page), "Remove", "Remove the version");
  await expect(page).toHaveURL(/\/skills$/);
  await expect(main(page).getByRole("row", { name: /echo/ })).toHaveCount(0);
  expect(await gateway.palyra("skills", "list")).not.toContain("echo");
});

test("where changes take two people, an installation waits for the second one, also when its page is left", async ({ browser }) => {
  const gateway = await Gateway.start();
  try {
    await gateway.add("carol", "--role", "admin");
    // She is a person of her own, which the host says while palyrad does not run.
    await gateway.end();
    await gateway.palyrad("members", "confirm", "user:carol");
    await gateway.restart();
    const page = await browser.newPage();
    await arrive(page, await gateway.link());
    const publisher = await Publisher.begin(gateway, "example.org");
    const file = await publisher.package("echo", "1.0.0");
    await choose(page, file);
    await dialog(page).getByLabel(/I compared the id of the key/).check();
    await dialog(page).getByRole("button", { name: "Trust the key and install this" }).click();
    await expect(dialog(page).getByText(/it asks the second one/)).toBeVisible();
    await expect.poll(async () => (await gateway.ask("echo"))?.state).toBe("pending");
    // The question waits without the page that asked it.
    await dialog(page).getByRole("button", { name: "Leave it" }).click();
    await expect(dialog(page)).toHaveCount(0);
    expect((await gateway.ask("echo"))?.state).toBe("pending");
    expect(await gateway.palyra("skills", "list")).not.toContain("echo");
    await gateway.decide("echo", ["--allow", "once"], "carol");
    await expect.poll(async () => await gateway.palyra("skills", "list")).toContain("echo");
    await page.goto(new URL("/skills/echo", page.url()).href);
    await expect(main(page).getByText("active", { exact: true }).first()).toBeVisible();
    await page.close();
  } finally {
    await gateway.stop();
  }
});
