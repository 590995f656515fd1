// Desktop notifications and the number of approvals in the title.
import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";

interface SentNotification {
  title: string;
  body: string;
  tag: string;
}

declare global {
  interface Window {
    sent: SentNotification[];
    clickLast: () => void;
  }
}

/** Records the browser's notifications, and marks the page as hidden. */
async function recordNotifications(page: Page): Promise<void> {
  await page.addInitScript(() => {
    window.sent = [];
    Object.defineProperty(document, "hidden", { get: () => true });
    const BrowserNotification = window.Notification;
    window.Notification = class extends BrowserNotification {
      constructor(title: string, options?: NotificationOptions) {
        super(title, options);
        window.sent.push({ title, body: options?.body ?? "", tag: options?.tag ?? "" });
        window.clickLast = () => {
          this.onclick?.(new MouseEvent("click"));
        };
      }
    };
  });
}

const sentNotifications = (page: Page) => page.evaluate(() => window.sent);

test("enabled desktop notifications display one line for each new approval", async ({ inbox: page, context, gateway }) => {
  await context.grantPermissions(["notifications"]);
  await recordNotifications(page);
  await page.reload();
  await expect(page.getByRole("status", { name: "Connection" })).toHaveText(/Live/);

  // Disabled by default, even with the permission of the browser.
  const before = gateway.call("fs.write", { path: "unheard.txt", content: "x\n" });
  await expect(page.getByRole("link", { name: "unheard.txt" })).toBeVisible();
  expect(await sentNotifications(page)).toEqual([]);
  before.stop();

  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Desktop notifications for new approvals" }).click();
  const call = gateway.call("process.run", { argv: ["git", "fetch", "<img src=x>\u202egpj\u200b", "a".repeat(400)] });
  await expect.poll(() => sentNotifications(page)).toHaveLength(1);
  const [notification] = await sentNotifications(page);
  const id = (await gateway.findApproval("git fetch"))?.approval_id ?? "";
  expect(notification?.title).toBe("Palyra: high approval requested by agent:helper");
  expect(notification?.tag).toBe(id);
  // A bounded line without invisible or bidirectional characters.
  expect(notification?.body).toContain("git fetch");
  expect(notification?.body).not.toMatch(/[\u202e\u200b\n]/);
  expect(notification?.body.length).toBeLessThanOrEqual(161);
  await expect(page).toHaveTitle(/^\(\d+\)/);

  // A click opens the approval and does not answer it.
  await page.evaluate(() => window.clickLast());
  await expect(page).toHaveURL(new RegExp(`/approvals/${id}$`));
  expect((await gateway.findApproval("git fetch"))?.state).toBe("pending");

  // No notification for an answer from a terminal, and none after disabling.
  await gateway.decide("git fetch", ["--deny", "--reason", "no"]);
  expect((await call.done).code).toBe(4);
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: /Desktop notifications for new approvals/ }).click();
  const after = gateway.call("fs.write", { path: "silent.txt", content: "x\n" });
  await expect.poll(() => gateway.findApproval("silent.txt")).toBeDefined();
  await expect(page).toHaveTitle(/^\(\d+\)/);
  expect(await sentNotifications(page)).toHaveLength(1);
  after.stop();
});

test("notifications stay disabled if the browser refuses", async ({ inbox: page, context, gateway }) => {
  await context.clearPermissions();
  await recordNotifications(page);
  await page.addInitScript(() => Object.defineProperty(Notification, "requestPermission", { value: () => Promise.resolve("denied") }));
  await page.reload();
  await page.getByRole("button", { name: "user:local" }).click();
  await page.getByRole("menuitem", { name: "Desktop notifications for new approvals" }).click();
  const call = gateway.call("fs.write", { path: "refused.txt", content: "x\n" });
  await expect(page.getByRole("link", { name: "refused.txt" })).toBeVisible();
  expect(await sentNotifications(page)).toEqual([]);
  call.stop();
});
