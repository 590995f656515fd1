import { readFileSync } from "node:fs";
import type { CDPSession, Page } from "@playwright/test";
import { expect, expectAccessible, test } from "./fixtures";

const present = `@id("presence")
@reason("files are written only with a proof of presence")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context has path_folded && ["present.txt", "later.txt", "absent.txt"].contains(context.path_folded) }
unless { context.approval.votes.contains({ role: "*", surface: "console", paired: false, present: true }) };
`;

// The later tests use the passkey of the first one.
test.describe.configure({ mode: "serial" });
interface Credential {
  credentialId: string;
  isResidentCredential: boolean;
  rpId?: string;
  privateKey: string;
  userHandle?: string;
  signCount: number;
}
let passkey: Credential | undefined;

/** Adds a virtual authenticator with user verification to the browser, with the existing passkey. */
async function authenticator(page: Page): Promise<{ cdp: CDPSession; id: string }> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId: id } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  if (passkey !== undefined) await cdp.send("WebAuthn.addCredential", { authenticatorId: id, credential: passkey });
  return { cdp, id };
}

/** Keeps the passkey with its current counter for the next test. */
async function storePasskey(cdp: CDPSession, id: string): Promise<void> {
  passkey = (await cdp.send("WebAuthn.getCredentials", { authenticatorId: id })).credentials[0];
}

const decision = (page: Page) => page.getByRole("region", { name: "Decision" });

test("a member enrols a passkey, confirms it on the host, and votes with it", async ({ inbox: page, gateway }) => {
  test.slow();
  const { cdp, id } = await authenticator(page);
  await gateway.writePolicy("present.cedar", present);
  await gateway.palyra("policy", "reload");
  const call = gateway.call("fs.write", { path: "present.txt", content: "written with a passkey\n" });

  // Without a passkey the page explains the problem.
  await page.getByRole("link", { name: "present.txt" }).click();
  await expect(decision(page).getByText("You have no passkey.")).toBeVisible();
  await decision(page).getByRole("link", { name: "Your passkeys" }).click();

  await expect(page.getByText("You have no passkey", { exact: true })).toBeVisible();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Enrol a passkey" }).click();
  const dialog = page.getByRole("dialog", { name: "Enrol a passkey" });
  await dialog.getByLabel("Name").fill("laptop");
  await dialog.getByRole("button", { name: "Create the passkey" }).click();
  // An agent is connected, so the first passkey must be confirmed on the gateway's host.
  await expect(dialog.getByText("must be confirmed before it can prove presence")).toBeVisible();
  const command = await dialog.getByText(/^palyrad presence passkey confirm /).innerText();
  const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId: id });
  expect(command).toContain(Buffer.from(credentials[0]?.credentialId ?? "", "base64").toString("base64url"));
  await dialog.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("listitem", { name: "laptop" });
  await expect(row.getByText("not confirmed", { exact: true })).toBeVisible();
  await expect(page.getByText("Enrolled in the last 7 days")).toBeVisible();
  await expectAccessible(page);

  // The approval reports that the passkey is not confirmed.
  await page.goBack();
  await expect(decision(page).getByText("Your passkey is not confirmed yet.")).toBeVisible();
  await page.goForward();
  await gateway.palyrad(...command.split(" ").slice(1));
  await expect(row.getByText("active", { exact: true })).toBeVisible();

  // A cancelled proof sends nothing.
  await page.goBack();
  const yes = decision(page).getByRole("button", { name: "Allow once, with passkey" });
  await expect(yes).not.toHaveAttribute("aria-disabled");
  await expectAccessible(page);
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId: id, isUserVerified: false });
  await yes.click();
  await expect(decision(page).getByText(/Nothing was sent/)).toBeVisible();
  await cdp.send("WebAuthn.setUserVerified", { authenticatorId: id, isUserVerified: true });
  await yes.click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  await expect(page.getByText("by console, present, by passkey")).toBeVisible();
  expect((await call.done).code).toBe(0);
  expect(readFileSync(gateway.file("present.txt"), "utf8")).toBe("written with a passkey\n");

  await storePasskey(cdp, id);
  expect(await gateway.palyra("journal", "verify")).toMatch(/passkey/);
});

test("an approval without proof is not sufficient and is repeated with one", async ({ inbox: page, gateway }) => {
  const { cdp, id } = await authenticator(page);
  const call = gateway.call("fs.write", { path: "later.txt", content: "later\n" });
  await page.getByRole("link", { name: "later.txt" }).click();
  await expect(decision(page).getByText(/an approval asks for your passkey/)).toBeVisible();
  const asked = /approvals\/([0-9A-Z]{26})/.exec(page.url())?.[1] ?? "";
  const { call_digest: digest } = JSON.parse(await gateway.palyra("approvals", "show", asked, "-o", "json")) as { call_digest: string };
  await gateway.palyra("approvals", "decide", asked, "--allow", "once", "--digest", digest);
  await expect(decision(page).getByText("You approved this without a proof of presence.")).toBeVisible();
  await decision(page).getByRole("button", { name: "Allow once, with passkey" }).click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  expect((await call.done).code).toBe(0);
  await storePasskey(cdp, id);
});

test("a passkey signs its own removal", async ({ inbox: page, gateway }) => {
  await authenticator(page);
  await page.goto(new URL("/passkeys", page.url()).href);
  const row = page.getByRole("listitem", { name: "laptop" });
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove the passkey" }).click();
  await expect(page.getByText("You have no passkey", { exact: true })).toBeVisible();
  expect(await gateway.palyra("journal", "verify")).toMatch(/passkey/);
});

test("a browser without passkeys displays the problem", async ({ inbox: page, gateway }) => {
  await page.addInitScript(() => {
    Reflect.deleteProperty(window, "PublicKeyCredential");
  });
  const call = gateway.call("fs.write", { path: "absent.txt", content: "x\n" });
  await page.reload();
  await page.getByRole("link", { name: "absent.txt" }).click();
  await expect(decision(page).getByText(/This browser does not support passkeys/)).toBeVisible();
  await page.goto(new URL("/passkeys", page.url()).href);
  await expect(page.getByText("Passkeys cannot be created or used in this browser.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Enrol a passkey" })).toHaveAttribute("aria-disabled", "true");
  call.stop();
});
