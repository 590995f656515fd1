// Actions on the screens of records and access.
import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";
import { expect, expectAccessible, test } from "./fixtures";
import type { Gateway } from "./gateway";

async function go(page: Page, path: string): Promise<void> {
  await page.goto(new URL(path, page.url()).href);
}

/** Saves an export with the browser and reads it. */
async function saveExport(page: Page, form: RegExp, path: string): Promise<{ name: string; text: string }> {
  await page.getByRole("button", { name: "Export", exact: true }).click();
  const dialog = page.getByRole("dialog");
  const label = (await dialog.getByLabel("Format").locator("option").allInnerTexts()).find((text) => form.test(text)) ?? "";
  await dialog.getByLabel("Format").selectOption({ label });
  const [download] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Save file" }).click()]);
  await download.saveAs(path);
  await expect(dialog.getByText(/saved to the browser's download folder/)).toBeVisible();
  await dialog.getByRole("button", { name: "Done" }).click();
  return { name: download.suggestedFilename(), text: await readFile(path, "utf8") };
}

async function denyCall(gateway: Gateway, path: string): Promise<void> {
  const call = gateway.call("fs.write", { path, content: "x\n" });
  await gateway.decide(path, ["--deny", "--reason", "=not(this)"]);
  await call.done;
}

test("the journal is filtered by the gateway, and an event is opened", async ({ inbox: page, gateway }) => {
  await denyCall(gateway, "journal.txt");
  await go(page, "/journal");
  const rows = page.getByRole("table", { name: "Events of the journal" }).getByRole("row").filter({ hasText: "PAL-" });
  await page.getByRole("searchbox", { name: "Filter" }).fill("code:PAL-A102");
  await page.keyboard.press("Enter");
  await expect(rows.first()).toContainText("PAL-A102");
  expect((await rows.allInnerTexts()).filter((text) => !text.includes("PAL-A102"))).toEqual([]);
  await rows.first().getByRole("link").click();
  await expect(page.getByRole("heading", { name: /^Event \d+: PAL-A102$/ })).toBeVisible();
  const seq = /journal\/(\d+)/.exec(page.url())?.[1] ?? "";
  const { hash } = JSON.parse(await gateway.palyra("journal", "show", seq, "-o", "json")) as { hash: string };
  await expect(page.getByTitle(hash).first()).toBeVisible();
  // New events that match the filter are displayed.
  await page.goBack();
  const before = await rows.count();
  await denyCall(gateway, "journal-2.txt");
  await expect(rows).toHaveCount(before + 1);
});

test("a saved journal equals the export of the command and verifies", async ({ inbox: page, gateway }, info) => {
  await go(page, "/journal");
  const lines = await saveExport(page, /^NDJSON/, info.outputPath("journal.ndjson"));
  expect(lines.name).toMatch(/^palyra-journal-\d{8}T\d{6}Z\.ndjson$/);
  expect(await gateway.palyra("journal", "verify", info.outputPath("journal.ndjson"))).toMatch(/events/);
  const whole = JSON.parse((await saveExport(page, /^JSON/, info.outputPath("journal.json"))).text) as { events: { seq: number }[] };
  expect(whole.events[0]?.seq).toBe(1);
  expect(whole.events.length).toBeGreaterThan(lines.text.split("\n").length - 20);
  const sheet = await saveExport(page, /^CSV/, info.outputPath("journal.csv"));
  expect(sheet.text.split("\r\n")[0]).toContain('"seq"');
});

test("saved approvals have their votes, and reasons are not formulas", async ({ inbox: page, gateway }, info) => {
  await denyCall(gateway, "saved.txt");
  await go(page, "/approvals?q=state:denied");
  const lines = await saveExport(page, /^NDJSON/, info.outputPath("approvals.ndjson"));
  const records = lines.text.trimEnd().split("\n").map((line) => JSON.parse(line) as { state?: string; prompt?: { summary: string } });
  expect(records.some((record) => record.prompt?.summary.includes("saved.txt"))).toBe(true);
  // The last line is the trailer.
  expect(records.slice(0, -1).filter((record) => record.state !== "denied")).toEqual([]);
  const sheet = await saveExport(page, /^CSV/, info.outputPath("approvals.csv"));
  expect(sheet.text).toContain("=not(this)");
  expect(sheet.text).not.toMatch(/(^|",)"=/m);
});

test("access is checked for members", async ({ inbox: page }) => {
  await go(page, "/access");
  await page.getByLabel("Permission or method").fill("approval.decide");
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await expect(page.getByText("allowed", { exact: true })).toBeVisible();
  await page.getByLabel("Member", { exact: true }).fill("agent:helper");
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await expect(page.getByText("denied", { exact: true })).toBeVisible();
  await expect(page).toHaveURL(/who=agent%3Ahelper/);
  await expectAccessible(page);
});

test("a pairing code is shown once and can be ended", async ({ inbox: page, gateway }) => {
  await go(page, "/pairing");
  await page.getByRole("button", { name: "Pair a device" }).click();
  await page.getByRole("dialog").getByLabel("The gateway's address for the other machine").fill(gateway.address);
  await page.getByRole("dialog").getByRole("button", { name: "Create the code" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("img", { name: "QR code of the link below" })).toBeVisible();
  const command = await dialog.getByText(/^palyra pair /).innerText();
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Done" }).click();
  // Only the command contains the secret.
  const secret = /palyra pair '?([^']+)'?$/.exec(command)?.[1] ?? "";
  expect(secret).not.toBe("");
  expect(await page.content()).not.toContain(secret);
  const { items } = JSON.parse(await gateway.palyra("pairing", "list", "-o", "json")) as { items: { pairing_id: string; state: string }[] };
  expect(items).toHaveLength(1);
  await expect(page.getByText(items[0]?.pairing_id ?? "", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "End", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End the pairing" }).click();
  await expect(page.getByText("No pairings")).toBeVisible();
  const pairingAttempt = await gateway.start(command.split(" ").slice(1).map((word) => word.replaceAll("'", ""))).done;
  expect(pairingAttempt.code, "a code that was ended").not.toBe(0);
});

test("after the end of a session the next call starts another one", async ({ inbox: page, gateway }) => {
  const open = async () => (JSON.parse(await gateway.palyra("sessions", "list", "-o", "json")) as { items: { session_id: string; principal: string }[] }).items.find((session) => session.principal === "agent:scout")?.session_id;
  expect((await gateway.call("echo", { text: "hello" }, "scout").done).code).toBe(0);
  const before = await open();
  await go(page, "/sessions");
  await page.getByRole("row", { name: /agent:scout/ }).getByRole("link").click();
  await expect(page.getByText("Facts for policy")).toBeVisible();
  await page.getByRole("button", { name: "End", exact: true }).click();
  await page.getByRole("dialog").getByLabel(/Reason/).fill("enough for today");
  await page.getByRole("dialog").getByRole("button", { name: "End the session" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByText("enough for today")).toBeVisible();
  expect(await open()).toBeUndefined();
  expect((await gateway.call("echo", { text: "again" }, "scout").done).code).toBe(0);
  expect(await open()).not.toBe(before);
});

test("a test notification is delivered and listed", async ({ inbox: page, hook }) => {
  await go(page, "/notifications");
  const before = hook.received.length;
  await page.getByRole("button", { name: "Send a test" }).click();
  await expect(page.getByText("The test was delivered.")).toBeVisible();
  expect(hook.received).toHaveLength(before + 1);
  await page.getByRole("tab", { name: "Deliveries" }).click();
  await expect(page.getByRole("row", { name: /ops/ }).first()).toContainText("delivered");
});

test("settings display their sources", async ({ inbox: page, gateway }) => {
  await go(page, "/settings");
  await page.getByLabel("Filter").fill("vault backend");
  const row = page.getByRole("row", { name: /vault\.backend/ });
  await expect(row).toContainText('"file"');
  await expect(row).toContainText("line 2");
  await page.getByLabel("Filter").fill("");
  const all = await page.getByRole("row").count();
  await page.getByLabel("Only changed settings").check();
  await expect.poll(() => page.getByRole("row").count()).toBeLessThan(all / 3);
  await expect(page.getByRole("row", { name: /state_dir/ })).toContainText(gateway.dir);
  await expect(page.getByRole("row", { name: /dual_control/ })).toHaveCount(0);
});
