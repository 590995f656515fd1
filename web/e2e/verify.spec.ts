// Verification of the journal by the browser: in the console, and with the single-file verifier.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, expectAccessible, test } from "./fixtures";

test("the console verifies the journal, pins a key and detects a rollback", async ({ inbox: page, gateway }) => {
  await page.goto(new URL("/journal/verify", page.url()).href);
  await expect(page.getByText("No key is pinned: this verifies the integrity of the journal, but not its origin.")).toBeVisible();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Verified: integrity only/)).toBeVisible();
  await expect(page.getByRole("heading", { name: "Last verification" })).toBeVisible();
  await expectAccessible(page);

  await page.getByRole("button", { name: "Pin this CA" }).click();
  await gateway.addMember("another", "--owner", "local", "--role", "agent"); // the journal grows
  await page.reload();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText("Verified: integrity and origin, with the pinned key.")).toBeVisible();

  // Another pinned CA and a larger remembered size are errors.
  await page.getByRole("button", { name: "Unpin" }).click();
  await page.getByLabel("CA fingerprint or checkpoint key").fill(`sha256:${"0".repeat(64)}`);
  await page.getByRole("button", { name: "Pin", exact: true }).click();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("the pinned CA is");
  await page.getByRole("button", { name: "Unpin" }).click();
  await page.evaluate(() => {
    const seen = JSON.parse(localStorage.getItem("palyra.verify.seen") ?? "{}") as { size: number };
    localStorage.setItem("palyra.verify.seen", JSON.stringify({ ...seen, size: seen.size + 100_000 }));
  });
  await page.reload();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("it was rolled back");
  await page.getByRole("button", { name: "Forget" }).click();
});

test("the single-file verifier opens from disk and detects a change", async ({ inbox: page, gateway, context }, info) => {
  await page.goto(new URL("/journal/verify", page.url()).href);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "single-file verifier" }).click()]);
  const file = info.outputPath("palyra-verifier.html");
  await download.saveAs(file);
  const published = await readFile(join(import.meta.dirname, "../../docs/format/verifier.sha256"), "utf8");
  expect(published).toContain(createHash("sha256").update(await readFile(file)).digest("hex"));

  const exportFile = info.outputPath("export.ndjson");
  await gateway.palyra("journal", "export", exportFile);
  const forgedFile = info.outputPath("forged.ndjson");
  await writeFile(forgedFile, (await readFile(exportFile, "utf8")).replace('"actor":"service:', '"actor":"mallory:'));
  const standalone = await context.newPage();
  await standalone.goto(`file://${file}`);
  await standalone.setInputFiles("#file", exportFile);
  await expect(standalone.getByText(/^Verified: integrity only/)).toBeVisible();
  await standalone.setInputFiles("#file", forgedFile);
  await expect(standalone.getByText("The first invalid event is 1.")).toBeVisible();
});
