import { existsSync, readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { expect, expectAccessible, test } from "./fixtures";

const decision = (page: Page) => page.getByRole("region", { name: "Decision" });

test("a call is edited and approved, and its requester receives the reason", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "edited.txt", content: "one\ntwo\n" });
  await page.getByRole("link", { name: "edited.txt" }).click();
  await decision(page).getByRole("button", { name: "Edit, then approve" }).click();
  const dialog = page.getByRole("dialog");
  const field = dialog.getByLabel("All arguments, as JSON");
  await expect(dialog.getByRole("paragraph").filter({ hasText: "No changes yet." })).toBeVisible();
  const before = await field.inputValue();
  await field.fill("{");
  await expect(dialog.getByRole("paragraph").filter({ hasText: "not valid JSON" })).toBeVisible();
  await field.fill(before.replace("two", "changed by a person"));
  await dialog.getByLabel("Reason (displayed to the requester)").fill("two is wrong");
  await expectAccessible(page);
  await dialog.getByRole("button", { name: "Review the changes" }).click();
  await expect(dialog.getByRole("row", { name: /removed two/ })).toBeVisible();
  await expect(dialog.getByRole("row", { name: /added changed by a person/ })).toBeVisible();
  await dialog.getByRole("button", { name: "Change the call" }).click();

  await expect(page.getByText("This call differs from the proposal: it was edited.")).toBeVisible();
  await expect(page.getByText(/Votes from before the last edit do not count/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Edits" })).toContainText("/content");
  expect(existsSync(gateway.file("edited.txt"))).toBe(false);
  await decision(page).getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  const result = await call.done;
  expect(result.code).toBe(0);
  expect(result.err).toContain("executed as edited by user:local: it ran with other arguments than proposed");
  expect(result.err).toContain("reason: two is wrong");
  expect(readFileSync(gateway.file("edited.txt"), "utf8")).toBe("one\nchanged by a person\n");
});

test("an edit of an approval that was answered in the meantime is refused", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "raced.txt", content: "x\n" });
  await page.getByRole("link", { name: "raced.txt" }).click();
  await decision(page).getByRole("button", { name: "Edit, then approve" }).click();
  const dialog = page.getByRole("dialog");
  const field = dialog.getByLabel("All arguments, as JSON");
  await field.fill((await field.inputValue()).replace('"x', '"y'));
  const id = /approvals\/([0-9A-Z]{26})/.exec(page.url())?.[1] ?? "";
  const { call_digest: digest } = JSON.parse(await gateway.palyra("approvals", "show", id, "-o", "json")) as { call_digest: string };
  await gateway.palyra("approvals", "decide", id, "--deny", "--reason", "from a terminal", "--digest", digest);
  await expect(dialog.getByText(/The approval was answered or expired in the meantime/)).toBeVisible();
  await expect(dialog.getByRole("button", { name: "Review the changes" })).toHaveAttribute("aria-disabled", "true");
  expect((await call.done).code).toBe(4);
});
