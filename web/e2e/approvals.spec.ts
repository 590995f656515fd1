import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "./fixtures";

test("a yes for once lets one call run, after the gateway's word", async ({ inbox: page, gateway }) => {
  const call = gateway.call("fs.write", { path: "once.txt", content: "written once\n" });
  await page.getByRole("link", { name: /once\.txt/ }).click();
  await expect(page).toHaveURL(/\/approvals\/[0-9A-Z]{26}/);
  expect(existsSync(gateway.file("once.txt"))).toBe(false);
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText(/The gateway recorded your yes/)).toBeVisible();
  expect((await call.done).code).toBe(0);
  expect(readFileSync(gateway.file("once.txt"), "utf8")).toBe("written once\n");
});
