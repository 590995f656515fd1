import { readFileSync } from "node:fs";
import type { CDPSession, Page } from "@playwright/test";
import { expect, expectAccessible, test } from "./fixtures";

const present = `@id("somebody-there")
@reason("files are written while a person is there")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context has path_folded && ["present.txt", "later.txt", "absent.txt"].contains(context.path_folded) }
unless { context.approval.votes.contains({ role: "*", surface: "console", paired: false, present: true }) };
`;

// The tests go on with the passkey of the first.
test.describe.configure({ mode: "serial" });
interface Credential {
  credentialId: string;
  isResidentCredential: boolean;
  rpId?: string;
  privateKey: string;
  userHandle?: string;
  signCount: number;
}
let kept: Credential | undefined;

/** Gives the page's browser an authenticator that verifies its user, with the passkey that was made before. */
async function authenticator(page: Page): Promise<{ cdp: CDPSession; id: string }> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId: id } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  if (kept !== undefined) await cdp.send("WebAuthn.addCredential", { authenticatorId: id, credential: kept });
  return { cdp, id };
}

/** Keeps the passkey for the next test, with its counter as it is by now. */
async function keep(cdp: CDPSession, id: string): Promise<void> {
  kept = (await cdp.send("WebAuthn.getCredentials", { authenticatorId: id })).credentials[0];
}

const decision = (page: Page) => page.getByRole("region", { name: "Decision" });

test("a member enrols a passkey, which the host confirms, and votes with it where policy wants a person there", async ({ inbox: page, gateway }) => {
  test.slow();
  const { cdp, id } = await authenticator(page);
  await gateway.policy("present.cedar", present);
  await gateway.palyra("policy", "reload");
  const call = gateway.call("fs.write", { path: "present.txt", content: "somebody was there\n" });

  // Without a passkey the detail says what is missing.
  await page.getByRole("link", { name: "present.txt" }).click();
  await expect(decision(page).getByText("You have no passkey.")).toBeVisible();
  await decision(page).getByRole("link", { name: "Your passkeys" }).click();

  await expect(page.getByText("You have no passkey", { exact: true })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Enrol a passkey" }).click();
  const dialog = page.getByRole("dialog", { name: "Enrol a passkey" });
  await dialog.getByLabel("Name").fill("laptop");
  await dialog.getByRole("button", { name: "Make the passkey" }).click();
  // An agent is connected already: the first passkey takes the gateway's host.
  await expect(dialog.getByText("proves nothing before it is confirmed")).toBeVisible();
  const command = await dialog.getByText(/^palyrad presence passkey confirm /).innerText();
  const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId: id });
  expect(command).toContain(Buffer.from(credentials[0]?.credentialId ?? "", "base64").toString("base64url"));
  await dialog.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("listitem", { name: "laptop" });
  await expect(row.getByText("waits to be confirmed", { exact: true })).toBeVisible();
  await expect(page.getByText("Enrolled in the last 7 days")).toBeVisible();
  await expectAccessible(page);

  // It proves nothing yet, and the ask says so.
  await page.goBack();
  await expect(decision(page).getByText("Your passkey waits to be confirmed.")).toBeVisible();
  await page.goForward();
  await gateway.palyrad(...command.split(" ").slice(1));
  await expect(row.getByText("counts", { exact: true })).toBeVisible();

  // A proof that is cancelled sends nothing.
  await page.goBack();
  const yes = decision(page).getByRole("button", { name: "Allow once, with passkey" });
  await expect(yes).not.toHaveAttribute("aria-disabled");
  await expectAccessible(page);
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId: id, isUserVerified: false });
  await yes.click();
  await expect(decision(page).getByText(/Nothing was sent/)).toBeVisible();
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId: id, isUserVerified: true });
  await yes.click();
  await expect(page.getByText("The gateway recorded your yes")).toBeVisible();
  await expect(page.getByText("by console, present, by passkey")).toBeVisible();
  expect((await call.done).code).toBe(0);
  expect(readFileSync(gateway.file("present.txt"), "utf8")).toBe("somebody was there\n");

  await keep(cdp, id);
  expect(await gateway.palyra("journal", "verify")).toMatch(/passkey/);
});

test("a yes without a proof is not enough, and is said again with one", async ({ inbox: page, gateway }) => {
  const { cdp, id } = await authenticator(page);
  const call = gateway.call("fs.write", { path: "later.txt", content: "later\n" });
  await page.getByRole("link", { name: "later.txt" }).click();
  await expect(decision(page).getByText(/a yes asks for your passkey/)).toBeVisible();
  const asked = /approvals\/([0-9A-Z]{26})/.exec(page.url())?.[1] ?? "";
  const { call_digest: digest } = JSON.parse(await gateway.palyra("approvals", "show", asked, "-o", "json")) as { call_digest: string };
  await gateway.palyra("approvals", "decide", asked, "--allow", "once", "--digest", digest);
  await expect(decision(page).getByText("You said yes without proving that you are there.")).toBeVisible();
  await decision(page).getByRole("button", { name: "Allow once, with passkey" }).click();
  await expect(page.getByText("The gateway recorded your yes")).toBeVisible();
  expect((await call.done).code).toBe(0);
  await keep(cdp, id);
});

test("a passkey is removed with its own word", async ({ inbox: page, gateway }) => {
  await authenticator(page);
  await page.goto(new URL("/passkeys", page.url()).href);
  const row = page.getByRole("listitem", { name: "laptop" });
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove the passkey" }).click();
  await expect(page.getByText("You have no passkey", { exact: true })).toBeVisible();
  expect(await gateway.palyra("journal", "verify")).toMatch(/passkey/);
});

test("a browser without passkeys says so", async ({ inbox: page, gateway }) => {
  await page.addInitScript(() => {
    Reflect.deleteProperty(window, "PublicKeyCredential");
  });
  const call = gateway.call("fs.write", { path: "absent.txt", content: "x\n" });
  await page.reload();
  await page.getByRole("link", { name: "absent.txt" }).click();
  await expect(decision(page).getByText(/This browser has no passkeys/)).toBeVisible();
  await page.goto(new URL("/passkeys", page.url()).href);
  await expect(page.getByText("No passkey can be made or used here.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Enrol a passkey" })).toHaveAttribute("aria-disabled", "true");
  call.stop();
});
