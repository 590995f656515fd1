// What calls a person who looks elsewhere.
import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";

interface Told {
  title: string;
  body: string;
  tag: string;
}

declare global {
  interface Window {
    told: Told[];
    clickLast: () => void;
  }
}

/** The browser's own notifications, noted as they are shown; and a person who looks at another window. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    window.told = [];
    Object.defineProperty(document, "hidden", { get: () => true });
    const Shown = window.Notification;
    window.Notification = class extends Shown {
      constructor(title: string, options?: NotificationOptions) {
        super(title, options);
        window.told.push({ title, body: options?.body ?? "", tag: options?.tag ?? "" });
        window.clickLast = () => {
          this.onclick?.(new MouseEvent("click"));
        };
      }
    };
  });
}

const told = (page: Page) => page.evaluate(() => window.told);

test("a desktop is told of a new ask once a person has switched that on, and of nothing more than its line", async ({ inbox: page, context, gateway }) => {
  await context.grantPermissions(["notifications"]);
  await watch(page);
  await page.reload();
  await expect(page.getByRole("status", { name: "Connection" })).toHaveText(/Live/);

  // Off until it is switched on, whatever the browser permits.
  const before = gateway.call("fs.write", { path: "unheard.txt", content: "x\n" });
  await expect(page.getByRole("link", { name: "unheard.txt" })).toBeVisible();
  expect(await told(page)).toEqual([]);
  before.stop();

  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Notify this desktop of new asks" }).click();
  const call = gateway.call("process.run", { argv: ["git", "fetch", "<img src=x>\u202egpj\u200b", "a".repeat(400)] });
  await expect.poll(() => told(page)).toHaveLength(1);
  const [shown] = await told(page);
  const id = (await gateway.ask("git fetch"))?.approval_id ?? "";
  expect(shown?.title).toBe("Palyra: high ask of agent:helper");
  expect(shown?.tag).toBe(id);
  // A line that ends, with nothing in it that hides or turns the writing.
  expect(shown?.body).toContain("git fetch");
  expect(shown?.body).not.toMatch(/[\u202e\u200b\n]/);
  expect(shown?.body.length).toBeLessThanOrEqual(161);
  await expect(page).toHaveTitle(/^\(\d+\)/);

  // It leads to the ask, and answers nothing.
  await page.evaluate(() => window.clickLast());
  await expect(page).toHaveURL(new RegExp(`/approvals/${id}$`));
  expect((await gateway.ask("git fetch"))?.state).toBe("pending");

  // Of an answer from elsewhere nobody is told again; and off is off.
  await gateway.decide("git fetch", ["--deny", "--reason", "no"]);
  expect((await call.done).code).toBe(4);
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: /Notify this desktop of new asks/ }).click();
  const after = gateway.call("fs.write", { path: "silent.txt", content: "x\n" });
  await expect.poll(() => gateway.ask("silent.txt")).toBeDefined();
  await expect(page).toHaveTitle(/^\(\d+\)/);
  expect(await told(page)).toHaveLength(1);
  after.stop();
});

test("where the browser refuses, it stays off", async ({ inbox: page, context, gateway }) => {
  await context.clearPermissions();
  await watch(page);
  await page.addInitScript(() => Object.defineProperty(Notification, "requestPermission", { value: () => Promise.resolve("denied") }));
  await page.reload();
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Notify this desktop of new asks" }).click();
  const call = gateway.call("fs.write", { path: "refused.txt", content: "x\n" });
  await expect(page.getByRole("link", { name: "refused.txt" })).toBeVisible();
  expect(await told(page)).toEqual([]);
  call.stop();
});
