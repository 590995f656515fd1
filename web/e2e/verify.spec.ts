// The journal, verified by the browser: in the console, and by the one file from disk.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, expectAccessible, test } from "./fixtures";

test("verifies, pins, remembers, and says what is proven", async ({ inbox: page, gateway }) => {
  await page.goto(new URL("/journal/verify", page.url()).href);
  await expect(page.getByText("No key is pinned: this proves that the journal is whole, and not whose it is.")).toBeVisible();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Whole\. Whose it is was not proven/)).toBeVisible();
  await expect(page.getByRole("heading", { name: "Last check" })).toBeVisible();
  await expectAccessible(page);

  await page.getByRole("button", { name: "Pin this CA" }).click();
  await gateway.add("another", "--owner", "local", "--role", "agent"); // the journal grows
  await page.reload();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText("Whole, and signed by the gateway whose key is pinned here.")).toBeVisible();

  // A pin of another CA, and a head that this journal does not have, are told.
  await page.getByRole("button", { name: "Unpin" }).click();
  await page.getByLabel("CA fingerprint or checkpoint key").fill(`sha256:${"0".repeat(64)}`);
  await page.getByRole("button", { name: "Pin", exact: true }).click();
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("this browser pinned");
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

test("the verifier in one file opens from disk and finds a change", async ({ inbox: page, gateway, context }, info) => {
  await page.goto(new URL("/journal/verify", page.url()).href);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "verifier in one file" }).click()]);
  const file = info.outputPath("palyra-verifier.html");
  await download.saveAs(file);
  const published = await readFile(join(import.meta.dirname, "../../docs/format/verifier.sha256"), "utf8");
  expect(published).toContain(createHash("sha256").update(await readFile(file)).digest("hex"));

  const exported = info.outputPath("export.ndjson");
  await gateway.palyra("journal", "export", exported);
  const forged = info.outputPath("forged.ndjson");
  await writeFile(forged, (await readFile(exported, "utf8")).replace('"actor":"service:', '"actor":"mallory:'));
  const alone = await context.newPage();
  await alone.goto(`file://${file}`);
  await alone.setInputFiles("#file", exported);
  await expect(alone.getByText(/^Whole\. Whose it is was not proven/)).toBeVisible();
  await alone.setInputFiles("#file", forged);
  await expect(alone.getByText("The first bad event is 1.")).toBeVisible();
});
