import type { Page } from "@playwright/test";
import { openInbox, decision, expect, expectRecorded, inboxAddress, openApproval, test } from "./fixtures";
import type { Running } from "./gateway";
import { InterruptibleProxy } from "./proxy";

test.use({ team: true });

const allow = (page: Parameters<typeof decision>[0]) => decision(page).getByRole("button", { name: "Allow once" });
const armed = (page: Parameters<typeof decision>[0]) => expect(page.locator("[data-armed=true]")).toBeVisible();

// The minimum timeout of an approval is half a minute. This one has a minute, so that a busy machine
// can open it in time. It stays open on a separate page while the other tests run.
let late: { anna: Page; call: Running };
test.beforeAll(async ({ browser, loggedIn, gateway }) => {
  await gateway.writePolicy(
    "90-short.cedar",
    `@id("short")
@reason("a short timeout for the test")
@timeout("1m")
permit(principal, action in Action::"tool.execute", resource)
when { resource.name == "fs.write" && context has path && context.path == "late.txt" && context.approval.granted && context.egress.mode != "none" };
`,
  );
  const state = await loggedIn("anna");
  const anna = await (await browser.newContext({ storageState: state })).newPage();
  await openInbox(anna, inboxAddress(state));
  late = { anna, call: gateway.call("fs.write", { path: "late.txt", content: "x\n" }) };
  await openApproval(anna, "late.txt");
  await expect(decision(anna).getByText(/left/)).toBeVisible();
  await expect(decision(anna).getByRole("button", { name: "Allow once" })).toBeVisible();
});

test("of two simultaneous votes one counts, and the other page names the voter", async ({ openAs, gateway }) => {
  const [anna, ben] = [await openAs("anna"), await openAs("ben")];
  const call = gateway.call("fs.write", { path: "race.txt", content: "x\n" });
  for (const page of [anna, ben]) {
    await openApproval(page, "race.txt");
    await armed(page);
  }
  // Both votes are sent before either has a response.
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
  const won = (page: typeof anna) => page.getByText("The gateway recorded your approval");
  const lost = (page: typeof anna, winner: string) => page.getByText(new RegExp(`Another member answered first: the approval is (allowed|consumed), by user:${winner}\\. Your vote was not counted\\.`));
  await expect(won(anna).or(lost(anna, "ben"))).toBeVisible();
  await expect(won(ben).or(lost(ben, "anna"))).toBeVisible();
  expect((await won(anna).count()) + (await won(ben).count())).toBe(1);
  expect((await lost(anna, "ben").count()) + (await lost(ben, "anna").count())).toBe(1);
  expect((await call.done).code).toBe(0);
});

test("an open page displays a decision from elsewhere and removes its buttons", async ({ openAs, gateway }) => {
  const [anna, ben] = [await openAs("anna"), await openAs("ben")];
  const call = gateway.call("fs.write", { path: "before.txt", content: "x\n" });
  await openApproval(ben, "before.txt");
  await gateway.decide("before.txt", ["--deny", "--reason", "from a terminal"], "anna");
  await expect(decision(ben).getByText(/The approval is denied, decided by user:anna\. It can no longer be answered\./)).toBeVisible();
  await expect(decision(ben).getByRole("button")).toHaveCount(0);
  expect((await call.done).code).toBe(4);
  await expect(anna.getByRole("row", { name: /before\.txt.*denied/ })).toBeVisible();
});

test("after the revocation of a grant the next call requires approval", async ({ openAs, gateway }) => {
  const anna = await openAs("anna");
  const first = gateway.call("fs.write", { path: "granted.txt", content: "one\n" });
  await openApproval(anna, "granted.txt");
  await decision(anna).getByLabel("Scope of the approval").selectOption({ label: "For a limited time, similar calls" });
  await decision(anna).getByRole("button", { name: /^Allow for/ }).click();
  await expectRecorded(anna, "approval");
  expect((await first.done).code).toBe(0);
  const covered = await gateway.call("fs.write", { path: "granted.txt", content: "two\n", mode: "overwrite" }).done;
  expect(covered.code, covered.err).toBe(0);

  await anna.getByRole("link", { name: "Grants", exact: true }).click();
  const row = anna.getByRole("row", { name: /granted\.txt/ });
  await row.getByRole("button", { name: "Revoke" }).click();
  await anna.getByRole("dialog").getByLabel(/Reason/).fill("no longer");
  await anna.getByRole("dialog").getByRole("button", { name: "Revoke the grant" }).click();
  // Rows below an open dialog are hidden from roles: the count alone would be 0 before the revocation.
  await expect(anna.getByRole("dialog")).toHaveCount(0);
  await expect(row).toHaveCount(0);

  const next = gateway.call("fs.write", { path: "granted.txt", content: "three\n", mode: "overwrite" });
  await anna.getByRole("link", { name: "Approvals", exact: true }).click();
  await expect(anna.getByRole("row", { name: /granted\.txt.*left/ })).toBeVisible();
  next.stop();
});

test("an approval that is created during a reconnect is displayed afterwards", async ({ openAs, gateway }) => {
  const proxy = await InterruptibleProxy.start();
  try {
    const anna = await openAs("anna", { proxy: { server: proxy.address } });
    const mark = anna.getByRole("status", { name: "Connection" });
    await expect(mark).toHaveText(/Live/);
    proxy.interrupt();
    await expect(mark).toHaveText(/Stale for/);
    const call = gateway.call("fs.write", { path: "meanwhile.txt", content: "x\n" });
    await expect.poll(() => gateway.findApproval("meanwhile.txt")).toBeDefined();
    await expect(anna.getByRole("link", { name: "meanwhile.txt" })).toHaveCount(0);
    proxy.restore();
    await expect(mark).toHaveText(/Live/);
    await expect(anna.getByRole("link", { name: "meanwhile.txt" })).toBeVisible();
    call.stop();
  } finally {
    await proxy.stop();
  }
});

test("an approval that is created while the list loads is displayed", async ({ openAs, gateway }) => {
  const proxy = await InterruptibleProxy.start();
  try {
    // The response of the gateway is delayed and therefore out of date.
    const go = proxy.delay("/ListApprovals");
    const anna = await openAs("anna", { proxy: { server: proxy.address } });
    await expect(anna.getByRole("status", { name: "Connection" })).toHaveText(/Live/);
    await expect(anna.getByText("Loading approvals")).toBeVisible();
    const call = gateway.call("fs.write", { path: "early.txt", content: "x\n" });
    await expect.poll(() => gateway.findApproval("early.txt")).toBeDefined();
    go();
    await expect(anna.getByRole("link", { name: "early.txt" })).toBeVisible();
    call.stop();
  } finally {
    await proxy.stop();
  }
});

test("an expired approval displays its state and has no buttons", async () => {
  const { anna, call } = late;
  await expect(decision(anna).getByText(/The approval (has|is) expired/)).toBeVisible();
  await expect(decision(anna).getByText("The approval is expired")).toBeVisible();
  await expect(decision(anna).getByRole("button")).toHaveCount(0);
  expect((await call.done).code).toBe(5);
  await anna.context().close();
});

test("the approval names the agent and its user", async ({ openAs, gateway }) => {
  const anna = await openAs("anna");
  const call = gateway.call("process.run", { argv: ["git", "fetch", "origin"] }, "scout");
  await openApproval(anna, "git fetch origin");
  const detail = anna.locator("[data-detail]");
  await expect(detail.getByText(/agent:scout for user:local/).first()).toBeVisible();
  // The decision does not apply to another agent.
  await decision(anna).getByLabel(/Reason for a denial/).fill("not the scout");
  await decision(anna).getByRole("button", { name: "Deny" }).click();
  await expectRecorded(anna, "denial");
  expect((await call.done).code).toBe(4);
  const other = gateway.call("process.run", { argv: ["git", "fetch", "origin"] }, "helper");
  await expect.poll(async () => (await gateway.findApproval("git fetch origin"))?.state).toBe("pending");
  other.stop();
});

test("a restart of the daemon ends sessions, and the page explains how to log in", async ({ openAs, gateway }) => {
  const anna = await openAs("anna");
  const call = gateway.call("fs.write", { path: "restart.txt", content: "x\n" });
  await openApproval(anna, "restart.txt");
  const path = new URL(anna.url()).pathname;
  await gateway.stopDaemon();
  await expect(anna.getByRole("status", { name: "Connection" })).toHaveText(/Stale/);
  await gateway.restart();
  await expect(anna.getByText(/The session has ended: .*the gateway restarted/)).toBeVisible();
  await expect(anna.getByText("palyra console", { exact: true })).toBeVisible();
  await call.done;
  // The new link returns to the previous page.
  await anna.goto(await gateway.link("anna"));
  await expect(anna).toHaveURL(new RegExp(`${path}$`));
  await expect(anna.locator("[data-detail]")).toBeVisible();
});
