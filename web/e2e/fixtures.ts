import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { test as base, expect } from "@playwright/test";
import { Gateway } from "./gateway";

export { expect };

interface PerTest {
  /** A page of the local operator, logged in, on the inbox. */
  inbox: Page;
  /** Fails the test when a page breaks the content security policy or throws. */
  clean: undefined;
}

interface PerWorker {
  gateway: Gateway;
}

export const test = base.extend<PerTest, PerWorker>({
  gateway: [
    async ({}, use) => {
      const gateway = await Gateway.start();
      await gateway.add("helper", "--owner", "local", "--role", "agent");
      await use(gateway);
      await gateway.stop();
    },
    { scope: "worker", timeout: 60_000 },
  ],
  clean: [
    async ({ context }, use) => {
      const problems: string[] = [];
      context.on("weberror", (error) => problems.push(String(error.error())));
      context.on("console", (message) => {
        if (/Content Security Policy|TrustedScript|TrustedHTML/.test(message.text())) problems.push(message.text());
      });
      await use(undefined);
      expect(problems, "errors of the page").toEqual([]);
    },
    { auto: true },
  ],
  inbox: async ({ page, gateway }, use) => {
    await page.goto(await gateway.link());
    await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
    await use(page);
  },
});

/** Axe finds nothing, in either theme. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
    const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
    expect(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`), `in the ${theme} theme`).toEqual([]);
  }
}
