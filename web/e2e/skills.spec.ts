import type { Locator, Page } from "@playwright/test";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openInbox, expect, expectAccessible, test } from "./fixtures";
import { Gateway, programs } from "./gateway";
import { Publisher } from "./packages";

const main = (page: Page): Locator => page.getByRole("main");
const dialog = (page: Page): Locator => page.getByRole("dialog");

/** Opens the list of skills and selects a package to install. */
async function selectPackage(page: Page, file: string): Promise<void> {
  await page.goto(new URL("/skills", page.url()).href);
  await page.getByRole("button", { name: "Install a skill" }).click();
  await dialog(page).getByLabel("Package").setInputFiles(file);
}

/** Clicks a button and confirms its dialog. */
async function confirmAction(where: Locator, label: string, confirmLabel: string, reason?: string): Promise<void> {
  const confirmation = dialog(where.page());
  await where.getByRole("button", { name: label, exact: true }).click();
  if (reason !== undefined) await confirmation.getByLabel("Reason (kept in the journal)").fill(reason);
  await confirmation.getByRole("button", { name: confirmLabel }).click();
  await expect(confirmation).toHaveCount(0);
}

/** Returns the result of the skill's tool, which requires no approval. */
async function callEcho(gateway: Gateway, text: string): Promise<string> {
  const { code, out, err } = await gateway.call("echo/say", { text }).done;
  expect(code, err).toBe(0);
  return out;
}

test("a skill is inspected, installed, quarantined, updated, distrusted and removed", async ({ inbox: page, gateway }) => {
  // Without the worker program the tool is not called; the rest is tested.
  const runs = existsSync(join(programs, "palyra-wasm"));
  const publisher = await Publisher.create(gateway, "example.org");
  const first = await publisher.package("echo", "1.0.0");

  // A package with a changed byte.
  const bytes = await readFile(first);
  const at = bytes.indexOf("what it hears");
  bytes.write("What", at);
  await writeFile(join(gateway.dir, "tampered.palyra-skill"), bytes);
  await selectPackage(page, join(gateway.dir, "tampered.palyra-skill"));
  await expect(dialog(page).getByRole("alert")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: /install$/i })).toHaveCount(0);

  // The signed package, with an unknown key.
  await dialog(page).getByLabel("Package").setInputFiles(first);
  await expect(dialog(page).getByText("New publisher")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: `Copy ${publisher.keyId}` })).toBeVisible();
  await expect(dialog(page).getByRole("listitem", { name: "echo/say" })).toContainText("<script>alert(1)</script>");
  await expectAccessible(page);
  const yes = dialog(page).getByRole("button", { name: "Trust the key and install" });
  // A disabled button is focusable and has no effect.
  await yes.click({ force: true });
  await expect(yes).toHaveAccessibleDescription("Compare the key first.");
  expect(await gateway.palyra("skills", "list")).not.toContain("echo");
  await dialog(page).getByLabel(/I compared the id of the key/).check();
  await yes.click();
  await expect(page).toHaveURL(/\/skills\/echo\?version=1\.0\.0$/);
  await expect(main(page).getByText("active", { exact: true }).first()).toBeVisible();
  if (runs) expect(await callEcho(gateway, "hello")).toMatch(/"text": ?"hello"/);

  // Quarantine it in the page, and enable it from a terminal.
  await confirmAction(main(page), "Quarantine", "Quarantine the version", "it talks too much");
  await expect(main(page).getByText("quarantined", { exact: true }).first()).toBeVisible();
  await expect(main(page).getByText("it talks too much").first()).toBeVisible();
  const refused = await gateway.call("echo/say", { text: "x" }).done;
  expect(refused.code).not.toBe(0);
  expect(refused.err + refused.out).toContain("quarantined");
  await gateway.palyra("skills", "enable", "echo@1.0.0");
  await expect(main(page).getByText("quarantined", { exact: true })).toHaveCount(0);
  await expect(main(page).getByText("active", { exact: true }).first()).toBeVisible();

  // An update lists its additional permissions.
  await selectPackage(page, await publisher.package("echo", "1.1.0", 'http = ["api.example.org:443"]'));
  await expect(dialog(page).getByText("Permissions beyond the current version")).toBeVisible();
  await expect(dialog(page).getByText("api.example.org:443").first()).toBeVisible();
  await expect(dialog(page).getByText("SKILL_UNUSED_CAPABILITY")).toBeVisible();
  await expect(dialog(page).getByText("New publisher")).toHaveCount(0);
  await dialog(page).getByRole("button", { name: "Install", exact: true }).click();
  await expect(page).toHaveURL(/version=1\.1\.0$/);
  const versions = main(page).getByRole("list", { name: "Versions" });
  await expect(versions.getByRole("listitem").filter({ hasText: "1.1.0" })).toContainText("active");
  await expect(versions.getByRole("listitem").filter({ hasText: "1.0.0" })).toContainText("not current");
  await versions.getByRole("link", { name: "1.0.0" }).click();
  await expect(main(page).getByText("The tools of this version cannot be called")).toBeVisible();

  // A package with another key is not an update.
  const other = await Publisher.create(gateway, "example.org");
  await selectPackage(page, await other.package("echo", "1.2.0"));
  await expect(dialog(page).getByText("The package cannot be installed")).toBeVisible();
  await expect(dialog(page).getByRole("button", { name: /install$/i })).toHaveCount(0);
  await dialog(page).getByRole("button", { name: "Cancel" }).click();

  // The list, and the publishers.
  await expect(main(page).getByRole("row", { name: /echo.*1\.1\.0.*active/ })).toContainText("network");
  await page.getByRole("tab", { name: "Publishers" }).click();
  const theirs = main(page).getByRole("list", { name: "Publishers" }).getByRole("listitem", { name: "example.org" });
  await expect(theirs.getByText("trusted", { exact: true })).toBeVisible();
  await confirmAction(theirs, "Distrust", "Distrust the publisher");
  await expect(theirs.getByText("distrusted", { exact: true })).toBeVisible();
  await expectAccessible(page);
  const list = JSON.parse(await gateway.palyra("skills", "list", "-o", "json")) as { items: { skill: string; status: string }[] };
  expect(list.items.flatMap(({ skill, status }) => (skill === "echo" ? [status] : []))).toEqual(["quarantined", "quarantined"]);
  await confirmAction(theirs, "Trust again", "Trust this key");
  await expect(theirs.getByText("trusted", { exact: true })).toBeVisible();

  await page.getByRole("tab", { name: "Installed" }).click();
  await main(page).getByRole("row", { name: /echo.*1\.1\.0.*quarantined/ }).getByRole("link").click();
  await confirmAction(main(page), "Remove", "Remove the version");
  await main(page).getByRole("row", { name: /echo.*1\.0\.0/ }).getByRole("link").click();
  await confirmAction(main(page), "Remove", "Remove the version");
  await expect(page).toHaveURL(/\/skills$/);
  await expect(main(page).getByRole("row", { name: /echo/ })).toHaveCount(0);
  expect(await gateway.palyra("skills", "list")).not.toContain("echo");
});

test("an installation waits for the second approver, also after its page is closed", async ({ browser }) => {
  const gateway = await Gateway.start();
  try {
    await gateway.addMember("carol", "--role", "admin");
    // Confirm on the host that she is a separate person, while palyrad is stopped.
    await gateway.stopDaemon();
    await gateway.palyrad("members", "confirm", "user:carol");
    await gateway.restart();
    const page = await browser.newPage();
    await openInbox(page, await gateway.link());
    const publisher = await Publisher.create(gateway, "example.org");
    const file = await publisher.package("echo", "1.0.0");
    await selectPackage(page, file);
    await dialog(page).getByLabel(/I compared the id of the key/).check();
    await dialog(page).getByRole("button", { name: "Trust the key and install" }).click();
    await expect(dialog(page).getByText(/it asks the second one/)).toBeVisible();
    await expect.poll(async () => (await gateway.findApproval("echo"))?.state).toBe("pending");
    // The approval stays pending without the page.
    await dialog(page).getByRole("button", { name: "Cancel" }).click();
    await expect(dialog(page)).toHaveCount(0);
    expect((await gateway.findApproval("echo"))?.state).toBe("pending");
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
