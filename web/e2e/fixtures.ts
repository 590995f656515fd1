import AxeBuilder from "@axe-core/playwright";
import type { BrowserContext, BrowserContextOptions, Locator, Page } from "@playwright/test";
import { test as base, expect } from "@playwright/test";
import { WebhookReceiver } from "./webhook";
import type { State } from "./gateway";
import { Gateway, findSecret } from "./gateway";
import { stepTimeout } from "./timeout";

export { expect };

interface PerTest {
  /** Opens the inbox of a member in a separate browser context. */
  openAs: (member: string, settings?: BrowserContextOptions) => Promise<Page>;
  /** The inbox of the local operator. */
  inbox: Page;
  /** Fails the test if a page violates the content security policy or throws. */
  noPageErrors: undefined;
}

interface PerWorker {
  /** Whether other members can answer too; the owner can then not answer requests of their own agents. */
  team: boolean;
  /** The shared gateway, with or without a team. */
  gateway: Gateway;
  /** The receiver of the gateway's webhook. */
  hook: WebhookReceiver;
  /** Returns the browser state of a logged-in member, by default the local owner. Each member logs in once. */
  loggedIn: (member?: string) => Promise<State>;
}

const agents: Readonly<Record<string, readonly string[]>> = {
  helper: ["--owner", "local", "--role", "agent"],
  scout: ["--owner", "local", "--role", "agent"],
};
const people: typeof agents = { anna: ["--role", "operator"], ben: ["--role", "operator"] };

const model = `[[models]]
name = "demo"
provider = "scripted"
script = "DIR/demo.yaml"
`;

/** The script of the model for all runs. */
const script = `turns:
  - text: I read the file first.
    calls:
      - tool: fs.read
        input: {path: one.txt}
    usage: {input: 1200, output: 80}
  - text: It says what it should. <b>Done.</b>
  - text: I heard what you said.
  - text: Good bye.
`;

export const test = base.extend<PerTest, PerWorker>({
  team: [false, { option: true, scope: "worker" }],
  hook: [
    async ({}, use) => {
      const hook = await WebhookReceiver.start();
      await use(hook);
      await hook.stop();
    },
    { scope: "worker" },
  ],
  gateway: [
    async ({ team, hook }, use) => {
      const gateway = await Gateway.start(model + hook.settings, { "demo.yaml": script });
      const result = await gateway.start(["vault", "put", "vault://global/ops-webhook"], { input: `${hook.secret}\n` }).done;
      if (result.code !== 0) throw new Error(result.err);
      for (const [name, flags] of Object.entries(team ? { ...people, ...agents } : agents)) await gateway.addMember(name, ...flags);
      await use(gateway);
      await gateway.stop();
    },
    { scope: "worker", timeout: 5 * stepTimeout },
  ],
  loggedIn: [
    async ({ browser, gateway }, use) => {
      const logins = new Map<string, { start: number; state: State }>();
      await use(async (member = "") => {
        const before = logins.get(member);
        if (before?.start === gateway.starts && (await gateway.isLoggedIn(before.state))) return before.state;
        const context = await browser.newContext();
        await openInbox(await context.newPage(), await gateway.link(member === "" ? undefined : member));
        const state = await context.storageState();
        await context.close();
        logins.set(member, { start: gateway.starts, state });
        return state;
      });
    },
    { scope: "worker" },
  ],
  noPageErrors: [
    async ({ context }, use) => {
      const problems = problemsOf(context);
      await use(undefined);
      expect(problems, "errors of the page").toEqual([]);
    },
    { auto: true },
  ],
  inbox: async ({ page, context, loggedIn }, use) => {
    await context.setStorageState(await loggedIn());
    await openInbox(page, inboxAddress(await context.storageState()));
    await use(page);
  },
  openAs: async ({ browser, loggedIn }, use) => {
    const opened: { context: BrowserContext; problems: string[] }[] = [];
    await use(async (member, settings) => {
      const state = await loggedIn(member);
      const context = await browser.newContext({ ...settings, storageState: state });
      opened.push({ context, problems: problemsOf(context) });
      const page = await context.newPage();
      await openInbox(page, inboxAddress(state));
      return page;
    });
    for (const { context, problems } of opened) {
      await context.close();
      expect(problems, "errors of the page").toEqual([]);
    }
  },
});

/** Returns the address of the inbox for a login. */
export function inboxAddress(state: State): string {
  const [first] = state.origins;
  if (first === undefined) throw new Error("the browser state has no login");
  return `${first.origin}/approvals`;
}

/** Returns the session secret in the storage of a page, or undefined. */
export async function storedSecret(page: Page): Promise<string | undefined> {
  return findSecret(await page.evaluate(() => Object.keys(localStorage)));
}

/** Collects the errors of all pages of a browser context. */
function problemsOf(context: BrowserContext): string[] {
  const problems: string[] = [];
  context.on("weberror", (error) => problems.push(String(error.error())));
  context.on("console", (message) => {
    if (/Content Security Policy|TrustedScript|TrustedHTML/.test(message.text())) problems.push(message.text());
  });
  return problems;
}

/** Opens a link and waits for the inbox. */
export async function openInbox(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
}

/** The region of the page with the decision. */
export const decision = (page: Page): Locator => page.getByRole("region", { name: "Decision" });

/** Opens the approval that contains a text, once it is listed. */
export async function openApproval(page: Page, text: string): Promise<void> {
  await page.getByRole("link", { name: text }).click();
  await expect(decision(page)).toBeVisible();
}

/** Expects the confirmation that the gateway recorded the vote. */
export async function expectRecorded(page: Page, vote: "approval" | "denial"): Promise<void> {
  await expect(page.getByText(`The gateway recorded your ${vote}`)).toBeVisible();
}

/** Waits until the buttons are armed and all transitions are complete, so that colours are final. */
async function waitForTransitions(page: Page): Promise<void> {
  const allow = decision(page).getByRole("button", { name: /^Allow/ });
  if ((await allow.count()) > 0) await expect(allow.first()).toBeEnabled();
  await page.waitForFunction(() => !document.getAnimations().some((a) => a instanceof CSSTransition && a.playState === "running"));
}

/** Expects no findings of axe in both themes. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
    await waitForTransitions(page);
    // The pages have no frames, so axe needs no separate page to combine results. Themes differ only in
    // colours: the other rules are checked once.
    const axe = new AxeBuilder({ page }).setLegacyMode();
    const { violations } = await (theme === "light" ? axe.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]) : axe.withRules(["color-contrast", "link-in-text-block"])).analyze();
    expect(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`), `in the ${theme} theme`).toEqual([]);
  }
}
