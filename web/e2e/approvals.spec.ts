import { existsSync, readFileSync } from "node:fs";
import type { Gateway } from "./gateway";
import { decision, expect, expectAccessible, expectRecorded, openApproval, test } from "./fixtures";

/** Returns the state of the newest approval that contains a text. */
async function stateOf(gateway: Gateway, named: string): Promise<string> {
  return (await gateway.findApproval(named))?.state ?? "";
}

test("an approval for once runs one call", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "once.txt", content: "written once\n" });
  await openApproval(page, "once.txt");
  await expect(page).toHaveURL(/\/approvals\/[0-9A-Z]{26}/);
  expect(existsSync(gateway.file("once.txt"))).toBe(false);
  await decision(page).getByRole("button", { name: "Allow once" }).click();
  await expectRecorded(page, "approval");
  expect((await call.done).code).toBe(0);
  expect(readFileSync(gateway.file("once.txt"), "utf8")).toBe("written once\n");
  // The second call requires another approval.
  const again = gateway.call("fs.write", { path: "once.txt", content: "written once more\n", mode: "overwrite" });
  await expect(page.getByRole("row", { name: /once\.txt.*left/ })).toBeVisible();
  again.stop();
});

test("an approval for the session covers similar calls", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "session.txt", content: "one\n" });
  await openApproval(page, "session.txt");
  await decision(page).getByLabel("Scope of the approval").selectOption({ label: "For this session, similar calls" });
  await expect(decision(page).getByText(/any change that fs\.write makes to session\.txt/)).toBeVisible();
  await decision(page).getByRole("button", { name: "Allow for this session" }).click();
  await expectRecorded(page, "approval");
  expect((await call.done).code).toBe(0);
  expect((await gateway.call("fs.write", { path: "session.txt", content: "two\n", mode: "overwrite" }).done).code).toBe(0);
  expect(readFileSync(gateway.file("session.txt"), "utf8")).toBe("two\n");
});

test("a timeboxed approval creates a grant with an expiry", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "time.txt", content: "one\n" });
  await openApproval(page, "time.txt");
  await decision(page).getByLabel("Scope of the approval").selectOption({ label: "For a limited time, similar calls" });
  await decision(page).getByLabel("For", { exact: true }).selectOption({ label: "15m" });
  await decision(page).getByLabel("Maximum number of calls").fill("3");
  await decision(page).getByRole("button", { name: "Allow for 15m" }).click();
  await expectRecorded(page, "approval");
  expect((await call.done).code).toBe(0);
  expect((await gateway.call("fs.write", { path: "time.txt", content: "two\n", mode: "overwrite" }).done).code).toBe(0);
  const grants = await gateway.palyra("grants", "list", "-o", "json");
  expect(grants).toContain("time.txt");
  expect(grants).toMatch(/"most_uses": *"?3/);
});

test("a denial requires a reason, which the requester receives", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "no.txt", content: "no\n" });
  await openApproval(page, "no.txt");
  const deny = decision(page).getByRole("button", { name: "Deny" });
  await expect(deny).toHaveAttribute("aria-disabled", "true");
  await decision(page).getByLabel(/Reason for a denial/).fill("not on a Friday");
  await deny.click();
  await expectRecorded(page, "denial");
  const result = await call.done;
  expect(result.code).toBe(4);
  expect(result.err + result.out).toContain("not on a Friday");
  expect(existsSync(gateway.file("no.txt"))).toBe(false);
});

test("hostile text is displayed as text", async ({ inbox: page, gateway }) => {
  const hostile = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">\u202egnp.exe\u202c \u001b[31mred\u001b[0m pay\u200bpal`;
  const calls = [
    gateway.call("fs.write", { path: "hostile.txt", content: hostile }),
    gateway.call("process.run", { argv: ["git", "log", "<b>bold</b>\u202etxt.sh"] }),
    gateway.call("fs.write", { path: "large.txt", content: "A".repeat(1_000_000) }),
  ];
  await openApproval(page, "hostile.txt");
  const shown = page.locator("[data-detail]");
  await expect(shown.getByText("<script>window.hacked = 1</script>").first()).toBeVisible();
  for (const hidden of ["\u202e", "\u001b", "\u200b"]) expect(await page.locator("body").innerText()).not.toContain(hidden);
  await page.getByRole("button", { name: "Show the exact bytes" }).click();
  await expectAccessible(page);
  await expect(page.getByRole("link", { name: /<b>bold/ })).toBeVisible();
  await page.getByRole("link", { name: "large.txt" }).click();
  await expect(page.getByRole("button", { name: /Show .* more characters/ }).first()).toBeVisible();
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  for (const call of calls) call.stop();
});

test("a decision is not armed when it appears", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "arming.txt", content: "x\n" });
  // Click the button in the frame in which it appears.
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      for (const button of document.querySelectorAll("button")) {
        if (button.textContent === "Allow once" && !("clicked" in window)) {
          Object.assign(window, { clicked: true });
          button.click();
          observer.disconnect();
        }
      }
    }).observe(document.body, { childList: true, subtree: true });
  });
  await openApproval(page, "arming.txt");
  await expect.poll(() => page.evaluate(() => "clicked" in window)).toBe(true);
  await expect(page.locator("[data-armed=true]")).toBeVisible();
  expect(await stateOf(gateway, "arming.txt")).toBe("pending");
  await decision(page).getByRole("button", { name: "Allow once" }).click();
  await expectRecorded(page, "approval");
  expect((await call.done).code).toBe(0);
});

test("approvals are decided by keyboard", async ({ inbox: page, gateway }) => {
  const yes = gateway.call("fs.write", { path: "keys-yes.txt", content: "x\n" });
  await expect(page.getByRole("link", { name: "keys-yes.txt" })).toBeVisible();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect(page.locator("[data-armed=true]")).toBeVisible();
  // A single key does not decide.
  await page.keyboard.press("a");
  const dialog = page.getByRole("dialog", { name: "Allow once?" });
  await expect(dialog).toBeVisible();
  expect(await stateOf(gateway, "keys-yes.txt")).toBe("pending");
  await expect(dialog.getByRole("button", { name: "Allow once" })).toBeFocused();
  await expect(dialog.getByRole("button", { name: "Allow once" })).not.toHaveAttribute("aria-disabled");
  await page.keyboard.press("Enter");
  await expectRecorded(page, "approval");
  expect((await yes.done).code).toBe(0);

  const no = gateway.call("fs.write", { path: "keys-no.txt", content: "x\n" });
  await page.keyboard.press("u");
  await page.keyboard.press("n");
  await page.getByRole("link", { name: "keys-no.txt" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.locator("[data-armed=true]")).toBeVisible();
  await page.keyboard.press("d");
  await page.keyboard.type("a person at a keyboard says no");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await expect(decision(page).getByRole("button", { name: "Deny" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expectRecorded(page, "denial");
  expect((await no.done).code).toBe(4);
});

test("a batch is reviewed one by one, and sent only after the last review", async ({ inbox: page, gateway }) => {
  const first = gateway.call("fs.write", { path: "batch-1.txt", content: "x\n" });
  const second = gateway.call("fs.write", { path: "batch-2.txt", content: "x\n" });
  // Wait for both before the pointer is over the list, which would queue the other one.
  for (const name of ["batch-1.txt", "batch-2.txt"]) await expect(page.getByRole("link", { name })).toBeVisible();
  await page.getByRole("checkbox", { name: /batch-1/ }).check();
  await page.getByRole("checkbox", { name: /batch-2/ }).check();
  await page.getByRole("button", { name: "Review 2 one by one" }).click();
  const dialog = page.getByRole("dialog");
  for (const step of ["Approval 1 of 2", "Approval 2 of 2"]) {
    await expect(dialog.getByRole("heading", { name: step })).toBeVisible();
    await expect(dialog.getByRole("button", { name: "Allow once" })).not.toHaveAttribute("aria-disabled");
    if (step === "Approval 2 of 2") {
      await expectAccessible(page);
      await dialog.getByLabel(/Reason for a denial/).fill("one is enough");
      await dialog.getByRole("button", { name: "Deny", exact: true }).click();
    } else {
      await dialog.getByRole("button", { name: "Allow once" }).click();
    }
  }
  expect([await stateOf(gateway, "batch-1.txt"), await stateOf(gateway, "batch-2.txt")]).toEqual(["pending", "pending"]);
  await dialog.getByRole("button", { name: "Send 2 votes" }).click();
  await expect(dialog.getByText("2 of 2 votes recorded.")).toBeVisible();
  expect([(await first.done).code, (await second.done).code].sort()).toEqual([0, 4]);
});

test("new approvals do not move rows under the pointer, and are announced", async ({ inbox: page, gateway }) => {
  const first = gateway.call("fs.write", { path: "still-1.txt", content: "x\n" });
  const row = page.getByRole("row", { name: /still-1\.txt/ });
  await row.hover();
  const before = await row.boundingBox();
  const second = gateway.call("fs.write", { path: "still-2.txt", content: "x\n" });
  await expect(page.getByRole("button", { name: /1 new: .*still-2\.txt/ })).toBeVisible();
  await expect(page.getByRole("status").filter({ hasText: "New approval" })).toHaveText(/still-2\.txt/);
  await expect(page).toHaveTitle(/^\(\d+\)/);
  expect(await row.boundingBox()).toEqual(before);
  await page.keyboard.press("n");
  await expect(page.getByRole("row", { name: /still-2\.txt/ })).toBeVisible();
  // An answer from a terminal updates the row in place.
  const id = /approvals\/([0-9A-Z]{26})/.exec((await page.getByRole("link", { name: "still-1.txt" }).getAttribute("href")) ?? "")?.[1] ?? "";
  const { call_digest: digest } = JSON.parse(await gateway.palyra("approvals", "show", id, "-o", "json")) as { call_digest: string };
  await gateway.palyra("approvals", "decide", id, "--deny", "--reason", "from a terminal", "--digest", digest);
  await expect(row.getByText("denied")).toBeVisible();
  expect((await first.done).code).toBe(4);
  second.stop();
});

test("a saved filter keeps the ascending order", async ({ inbox: page, gateway }) => {
  const calls = [];
  for (const name of ["order-1.txt", "order-2.txt"]) {
    calls.push(gateway.call("fs.write", { path: name, content: "x\n" }));
    await expect(page.getByRole("link", { name })).toBeVisible();
  }
  const order = async () => (await page.getByRole("row").filter({ hasText: /order-\d/ }).allInnerTexts()).map((text) => /order-\d/.exec(text)?.[0]);
  expect(await order()).toEqual(["order-2", "order-1"]);
  await page.getByRole("button", { name: "Newest first: reverse the order" }).click();
  await expect(page).toHaveURL(/q=order%3Aoldest/);
  await expect.poll(order).toEqual(["order-1", "order-2"]);
  // New approvals are appended, also while the pointer is over the list.
  await page.getByRole("row", { name: /order-1/ }).hover();
  const before = await page.getByRole("row", { name: /order-1/ }).boundingBox();
  calls.push(gateway.call("fs.write", { path: "order-3.txt", content: "x\n" }));
  await expect.poll(order).toEqual(["order-1", "order-2", "order-3"]);
  expect(await page.getByRole("row", { name: /order-1/ }).boundingBox()).toEqual(before);

  await page.getByRole("button", { name: "Saved filters" }).click();
  await page.getByRole("menuitem", { name: "Save this filter…" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("oldest first");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Saved filters" }).click();
  await page.getByRole("menuitem", { name: "Make “oldest first” the default" }).click();
  await page.goto(new URL("/approvals", page.url()).href);
  await expect.poll(order).toEqual(["order-1", "order-2", "order-3"]);
  await page.keyboard.press("r");
  await expect.poll(order).toEqual(["order-3", "order-2", "order-1"]);
  for (const call of calls) call.stop();
});

test("inbox and detail are accessible, also on a phone", async ({ inbox: page, gateway }) => {
  const call = gateway.call("process.run", { argv: ["git", "push", "origin", "main"] });
  await expect(page.getByRole("link", { name: "git push origin main" })).toBeVisible();
  await page.getByRole("searchbox", { name: "Filter" }).fill("-severity:low tool:process.run");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/q=-severity/);
  await expect(page.getByRole("list", { name: "Active filters" })).toBeVisible();
  await expectAccessible(page);
  await openApproval(page, "git push origin main");
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  await expectAccessible(page);
  call.stop();
});

test("a logout ends the session in every tab", async ({ inbox: page, context }) => {
  const other = await context.newPage();
  await other.goto(page.url());
  await expect(other.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByText(/You are logged out/)).toBeVisible();
  await expect(other.getByText(/You are logged out/)).toBeVisible();
  await expectAccessible(page);
  // The cookie is no longer accepted, with or without a secret.
  expect(await other.evaluate(async () => (await fetch("/palyra.v1.ConsoleService/Whoami", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" })).status)).toBe(401);
});
