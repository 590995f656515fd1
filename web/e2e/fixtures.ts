import AxeBuilder from "@axe-core/playwright";
import type { BrowserContext, BrowserContextOptions, Locator, Page } from "@playwright/test";
import { test as base, expect } from "@playwright/test";
import { Hook } from "./hook";
import type { State } from "./gateway";
import { Gateway, secretIn } from "./gateway";
import { patience } from "./patience";

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
  /** Whether others can answer beside the owner, who then answers for nobody of their own. */
  team: boolean;
  /** The gateway of all tests, alone or with a team. */
  gateway: Gateway;
  /** Where the gateway's webhook leads. */
  hook: Hook;
  /** What the browser keeps of a member who is logged in, the local owner unless one is named. Each logs in once. */
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

/** What the model of all runs does. */
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
      const hook = await Hook.listen();
      await use(hook);
      await hook.stop();
    },
    { scope: "worker" },
  ],
  gateway: [
    async ({ team, hook }, use) => {
      const gateway = await Gateway.start(model + hook.settings, { "demo.yaml": script });
      const put = await gateway.start(["vault", "put", "vault://global/ops-webhook"], { input: `${hook.secret}\n` }).done;
      if (put.code !== 0) throw new Error(put.err);
      for (const [name, flags] of Object.entries(team ? { ...people, ...agents } : agents)) await gateway.add(name, ...flags);
      await use(gateway);
      await gateway.stop();
    },
    { scope: "worker", timeout: 5 * patience },
  ],
  loggedIn: [
    async ({ browser, gateway }, use) => {
      const kept = new Map<string, { start: number; state: State }>();
      await use(async (member = "") => {
        const before = kept.get(member);
        if (before?.start === gateway.starts && (await gateway.knows(before.state))) return before.state;
        const context = await browser.newContext();
        await arrive(await context.newPage(), await gateway.link(member === "" ? undefined : member));
        const state = await context.storageState();
        await context.close();
        kept.set(member, { start: gateway.starts, state });
        return state;
      });
    },
    { scope: "worker" },
  ],
  clean: [
    async ({ context }, use) => {
      const problems = problemsOf(context);
      await use(undefined);
      expect(problems, "errors of the page").toEqual([]);
    },
    { auto: true },
  ],
  inbox: async ({ page, context, loggedIn }, use) => {
    await context.setStorageState(await loggedIn());
    await arrive(page, home(await context.storageState()));
    await use(page);
  },
  enter: async ({ browser, loggedIn }, use) => {
    const opened: { context: BrowserContext; problems: string[] }[] = [];
    await use(async (member, settings) => {
      const state = await loggedIn(member);
      const context = await browser.newContext({ ...settings, storageState: state });
      opened.push({ context, problems: problemsOf(context) });
      const page = await context.newPage();
      await arrive(page, home(state));
      return page;
    });
    for (const { context, problems } of opened) {
      await context.close();
      expect(problems, "errors of the page").toEqual([]);
    }
  },
});

/** The inbox of who is logged in. */
export function home(state: State): string {
  const [first] = state.origins;
  if (first === undefined) throw new Error("nobody is logged in");
  return `${first.origin}/approvals`;
}

/** The secret of the session that a page's storage has, or undefined. */
export async function keptSecret(page: Page): Promise<string | undefined> {
  return secretIn(await page.evaluate(() => Object.keys(localStorage)));
}

/** What goes wrong in the pages of a browser, as it happens. */
function problemsOf(context: BrowserContext): string[] {
  const problems: string[] = [];
  context.on("weberror", (error) => problems.push(String(error.error())));
  context.on("console", (message) => {
    if (/Content Security Policy|TrustedScript|TrustedHTML/.test(message.text())) problems.push(message.text());
  });
  return problems;
}

/** Opens a link and waits until the inbox is there and hears what is new. */
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

/** Nothing changes its colour any more: what is pressed only after a moment can be, and no transition is under way. */
async function settled(page: Page): Promise<void> {
  const allow = decision(page).getByRole("button", { name: /^Allow/ });
  if ((await allow.count()) > 0) await expect(allow.first()).toBeEnabled();
  await page.waitForFunction(() => !document.getAnimations().some((a) => a instanceof CSSTransition && a.playState === "running"));
}

/** Axe finds nothing, in either theme. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
    await settled(page);
    // The pages have no frames, so that axe needs no page of its own to put their results together. A theme is
    // colours and nothing else: what is not about them is looked at once.
    const axe = new AxeBuilder({ page }).setLegacyMode();
    const { violations } = await (theme === "light" ? axe.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]) : axe.withRules(["color-contrast", "link-in-text-block"])).analyze();
    expect(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`), `in the ${theme} theme`).toEqual([]);
  }
}
