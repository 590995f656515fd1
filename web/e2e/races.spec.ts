import type { Page } from "@playwright/test";
import { arrive, decision, expect, expectRecorded, home, openAsk, test } from "./fixtures";
import type { Running } from "./gateway";
import { Line } from "./line";

test.use({ team: true });

const allow = (page: Parameters<typeof decision>[0]) => decision(page).getByRole("button", { name: "Allow once" });
const armed = (page: Parameters<typeof decision>[0]) => expect(page.locator("[data-armed=true]")).toBeVisible();

// An ask waits at least half a minute. This one waits a minute, so that it is still pending when
// a busy machine has opened it, and is open on a screen of its own while the others are tested.
let late: { anna: Page; call: Running };
test.beforeAll(async ({ browser, loggedIn, gateway }) => {
  await gateway.policy(
    "90-short.cedar",
    `@id("short")
@reason("this one is wanted soon")
@timeout("1m")
permit(principal, action in Action::"tool.execute", resource)
when { resource.name == "fs.write" && context has path && context.path == "late.txt" && context.approval.granted && context.egress.mode != "none" };
`,
  );
  const state = await loggedIn("anna");
  const anna = await (await browser.newContext({ storageState: state })).newPage();
  await arrive(anna, home(state));
  late = { anna, call: gateway.call("fs.write", { path: "late.txt", content: "x\n" }) };
  await openAsk(anna, "late.txt");
  await expect(decision(anna).getByText(/left/)).toBeVisible();
  await expect(decision(anna).getByRole("button", { name: "Allow once" })).toBeVisible();
});

test("two people answer at once: one counts, and the other is told who", async ({ enter, gateway }) => {
  const [anna, ben] = [await enter("anna"), await enter("ben")];
  const call = gateway.call("fs.write", { path: "race.txt", content: "x\n" });
  for (const page of [anna, ben]) {
    await openAsk(page, "race.txt");
    await armed(page);
  }
  // Both votes are on their way before either has an answer.
  const held: (() => void)[] = [];
  for (const page of [anna, ben]) {
    await page.route("**/palyra.v1.ApprovalsService/DecideApproval", async (route) => {
      await new Promise<void>((go) => {
        held.push(go);
        if (held.length === 2) for (const release of held) release();
      });
      await route.continue();
    });
  }
  await Promise.all([allow(anna).click(), allow(ben).click()]);
  const won = (page: typeof anna) => page.getByText("The gateway recorded your yes");
  const lost = (page: typeof anna, winner: string) => page.getByText(new RegExp(`Somebody else was faster: it is (allowed|consumed), by user:${winner}\\. Your vote was not counted\\.`));
  await expect(won(anna).or(lost(anna, "ben"))).toBeVisible();
  await expect(won(ben).or(lost(ben, "anna"))).toBeVisible();
  expect((await won(anna).count()) + (await won(ben).count())).toBe(1);
  expect((await lost(anna, "ben").count()) + (await lost(ben, "anna").count())).toBe(1);
  expect((await call.done).code).toBe(0);
});

test("who has a page of before is told who decided, and cannot any more", async ({ enter, gateway }) => {
  const [anna, ben] = [await enter("anna"), await enter("ben")];
  const call = gateway.call("fs.write", { path: "before.txt", content: "x\n" });
  await openAsk(ben, "before.txt");
  await gateway.decide("before.txt", ["--deny", "--reason", "from a terminal"], "anna");
  await expect(decision(ben).getByText(/It is denied, decided by user:anna\. There is nothing to decide any more\./)).toBeVisible();
  await expect(decision(ben).getByRole("button")).toHaveCount(0);
  expect((await call.done).code).toBe(4);
  await expect(anna.getByRole("row", { name: /before\.txt.*denied/ })).toBeVisible();
});

test("a grant that is revoked on the screen covers nothing more: the next call asks", async ({ enter, gateway }) => {
  const anna = await enter("anna");
  const first = gateway.call("fs.write", { path: "granted.txt", content: "one\n" });
  await openAsk(anna, "granted.txt");
  await decision(anna).getByLabel("A yes covers").selectOption({ label: "For a time, calls like it" });
  await decision(anna).getByRole("button", { name: /^Allow for/ }).click();
  await expectRecorded(anna, "yes");
  expect((await first.done).code).toBe(0);
  const covered = await gateway.call("fs.write", { path: "granted.txt", content: "two\n", mode: "overwrite" }).done;
  expect(covered.code, covered.err).toBe(0);

  await anna.getByRole("link", { name: "Grants", exact: true }).click();
  const row = anna.getByRole("row", { name: /granted\.txt/ });
  await row.getByRole("button", { name: "Revoke" }).click();
  await anna.getByRole("dialog").getByLabel(/Reason/).fill("no longer");
  await anna.getByRole("dialog").getByRole("button", { name: "Revoke the grant" }).click();
  await expect(row).toHaveCount(0);

  const next = gateway.call("fs.write", { path: "granted.txt", content: "three\n", mode: "overwrite" });
  await anna.getByRole("link", { name: "Approvals", exact: true }).click();
  await expect(anna.getByRole("row", { name: /granted\.txt.*left/ })).toBeVisible();
  next.stop();
});

test("an ask that arrives while the page reconnects is there afterwards", async ({ enter, gateway }) => {
  const line = await Line.lay();
  try {
    const anna = await enter("anna", { proxy: { server: line.proxy } });
    const mark = anna.getByRole("status", { name: "Connection" });
    await expect(mark).toHaveText(/Live/);
    line.cut();
    await expect(mark).toHaveText(/Stale for/);
    const call = gateway.call("fs.write", { path: "meanwhile.txt", content: "x\n" });
    await expect.poll(() => gateway.ask("meanwhile.txt")).toBeDefined();
    await expect(anna.getByRole("link", { name: "meanwhile.txt" })).toHaveCount(0);
    line.mend();
    await expect(mark).toHaveText(/Live/);
    await expect(anna.getByRole("link", { name: "meanwhile.txt" })).toBeVisible();
    call.stop();
  } finally {
    await line.remove();
  }
});

test("an ask that arrives while the list is on its way is there", async ({ enter, gateway }) => {
  const line = await Line.lay();
  try {
    // The gateway has answered, and the answer is late: what it says is of before.
    const go = line.hold("/ListApprovals");
    const anna = await enter("anna", { proxy: { server: line.proxy } });
    await expect(anna.getByRole("status", { name: "Connection" })).toHaveText(/Live/);
    await expect(anna.getByText("Loading approvals")).toBeVisible();
    const call = gateway.call("fs.write", { path: "early.txt", content: "x\n" });
    await expect.poll(() => gateway.ask("early.txt")).toBeDefined();
    go();
    await expect(anna.getByRole("link", { name: "early.txt" })).toBeVisible();
    call.stop();
  } finally {
    await line.remove();
  }
});

test("an ask whose time runs out says so on the screen, and has no buttons", async () => {
  const { anna, call } = late;
  await expect(decision(anna).getByText(/Its time is over|It is expired/)).toBeVisible();
  await expect(decision(anna).getByText("It is expired")).toBeVisible();
  await expect(decision(anna).getByRole("button")).toHaveCount(0);
  expect((await call.done).code).toBe(5);
  await anna.context().close();
});

test("the ask of a second agent names it and for whom it acts", async ({ enter, gateway }) => {
  const anna = await enter("anna");
  const call = gateway.call("process.run", { argv: ["git", "fetch", "origin"] }, "scout");
  await openAsk(anna, "git fetch origin");
  const detail = anna.locator("[data-detail]");
  await expect(detail.getByText(/agent:scout for user:local/).first()).toBeVisible();
  // An answer of the one says nothing of the other.
  await decision(anna).getByLabel(/Reason for a no/).fill("not the scout");
  await decision(anna).getByRole("button", { name: "Deny" }).click();
  await expectRecorded(anna, "no");
  expect((await call.done).code).toBe(4);
  const other = gateway.call("process.run", { argv: ["git", "fetch", "origin"] }, "helper");
  await expect.poll(async () => (await gateway.ask("git fetch origin"))?.state).toBe("pending");
  other.stop();
});

test("a daemon that starts anew ends the sessions, and the page says how to get in again", async ({ enter, gateway }) => {
  const anna = await enter("anna");
  const call = gateway.call("fs.write", { path: "restart.txt", content: "x\n" });
  await openAsk(anna, "restart.txt");
  const there = new URL(anna.url()).pathname;
  await gateway.end();
  await expect(anna.getByRole("status", { name: "Connection" })).toHaveText(/Stale/);
  await gateway.restart();
  await expect(anna.getByText(/The session is over: .*the gateway was started anew/)).toBeVisible();
  await expect(anna.getByText("palyra console", { exact: true })).toBeVisible();
  await call.done;
  // The new link leads back to where the person was.
  await anna.goto(await gateway.link("anna"));
  await expect(anna).toHaveURL(new RegExp(`${there}$`));
  await expect(anna.locator("[data-detail]")).toBeVisible();
});
