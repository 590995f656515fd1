import AxeBuilder from "@axe-core/playwright";
import type { BrowserContext, BrowserContextOptions, Locator, Page } from "@playwright/test";
import { test as base, expect } from "@playwright/test";
import { Gateway } from "./gateway";

export { expect };

interface PerTest {
  /** Opens a page of a member, in a browser of its own, on the inbox. */
  enter: (member: string, settings?: BrowserContextOptions) => Promise<Page>;
  /** A page of the local operator, logged in, on the inbox. */
  inbox: Page;
  /** Fails the test when a page breaks the content security policy or throws. */
  clean: undefined;
}

interface PerWorker {
  /** The members beside the local owner, with the flags that add them. */
  members: Readonly<Record<string, readonly string[]>>;
  /** What the gateway's configuration has beside the common settings. */
  settings: string;
  /** Files in the gateway's directory, by name. */
  files: Readonly<Record<string, string>>;
  gateway: Gateway;
}

export const test = base.extend<PerTest, PerWorker>({
  members: [{ helper: ["--owner", "local", "--role", "agent"] }, { option: true, scope: "worker" }],
  settings: ["", { option: true, scope: "worker" }],
  files: [{}, { option: true, scope: "worker" }],
  gateway: [
    async ({ members, settings, files }, use) => {
      const gateway = await Gateway.start(settings, files);
      for (const [name, flags] of Object.entries(members)) await gateway.add(name, ...flags);
      await use(gateway);
      await gateway.stop();
    },
    { scope: "worker", timeout: 60_000 },
  ],
  clean: [
    async ({ context }, use) => {
      const problems = problemsOf(context);
      await use(undefined);
      expect(problems, "errors of the page").toEqual([]);
    },
    { auto: true },
  ],
  inbox: async ({ page, gateway }, use) => {
    await arrive(page, await gateway.link());
    await use(page);
  },
  enter: async ({ browser, gateway }, use) => {
    const opened: { context: BrowserContext; problems: string[] }[] = [];
    await use(async (member, settings) => {
      const context = await browser.newContext(settings);
      opened.push({ context, problems: problemsOf(context) });
      const page = await context.newPage();
      await arrive(page, await gateway.link(member));
      return page;
    });
    for (const { context, problems } of opened) {
      await context.close();
      expect(problems, "errors of the page").toEqual([]);
    }
  },
});

/** What goes wrong in the pages of a browser, as it happens. */
function problemsOf(context: BrowserContext): string[] {
  const problems: string[] = [];
  context.on("weberror", (error) => problems.push(String(error.error())));
  context.on("console", (message) => {
    if (/Content Security Policy|TrustedScript|TrustedHTML/.test(message.text())) problems.push(message.text());
  });
  return problems;
}

/** Opens a link and waits for the inbox. */
export async function arrive(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
}

/** The part of the page that answers an ask. */
export const decision = (page: Page): Locator => page.getByRole("region", { name: "Decision" });

/** Opens the ask that names a word, once it is there. */
export async function openAsk(page: Page, named: string): Promise<void> {
  await page.getByRole("link", { name: named }).click();
  await expect(decision(page)).toBeVisible();
}

/** The page says that the gateway has the vote. */
export async function expectRecorded(page: Page, answer: "yes" | "no"): Promise<void> {
  await expect(page.getByText(`The gateway recorded your ${answer}`)).toBeVisible();
}

/** Axe finds nothing, in either theme. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
    const { violations } = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]).analyze();
    expect(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`), `in the ${theme} theme`).toEqual([]);
  }
}
