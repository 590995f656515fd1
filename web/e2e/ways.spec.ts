// Logins over TLS with the console's own CA, and with an identity provider.
import { X509Certificate, createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import type { Browser, Page } from "@playwright/test";
import { test as base, expect, expectAccessible, storedSecret } from "./fixtures";
import { Gateway, freePort } from "./gateway";
import { stepTimeout } from "./timeout";
import { Provider } from "./provider";

const host = "console.palyra.test";

interface Setup {
  gateway: Gateway;
  origin: string;
  port: number;
  /** A browser that resolves the name locally and additionally trusts the console's CA. */
  trusting: Browser;
  /** The same browser without the console's CA. */
  distrusting: Browser;
}

const test = base.extend<object, { setup: Setup }>({
  setup: [
    async ({ playwright, launchOptions }, use) => {
      const provider = await Provider.start({ subject: "1", name: "carla", groups: ["approvers"] }, { subject: "2", name: "dora", groups: ["visitors"] });
      const port = await freePort();
      const origin = `https://${host}:${port}`;
      const gateway = await Gateway.start(
        `[console]
origin = "${origin}"
own_ca = true
[oidc]
issuer = "${provider.issuer}"
client_id = "palyra"
[[oidc.groups]]
group = "approvers"
roles = ["operator"]
`,
        {},
        port,
      );
      await gateway.addMember("helper", "--owner", "local", "--role", "agent");
      const key = new X509Certificate(readFileSync(ca(gateway))).publicKey.export({ type: "spki", format: "der" });
      const args = [...(launchOptions.args ?? []), `--host-resolver-rules=MAP ${host} 127.0.0.1`];
      const distrusting = await playwright.chromium.launch({ ...launchOptions, args });
      const trusting = await playwright.chromium.launch({ ...launchOptions, args: [...args, `--ignore-certificate-errors-spki-list=${createHash("sha256").update(key).digest("base64")}`] });
      await use({ gateway, origin, port, trusting, distrusting });
      await trusting.close();
      await distrusting.close();
      await gateway.stop();
      await provider.stop();
    },
    { scope: "worker", timeout: 5 * stepTimeout },
  ],
});

const ca = (gateway: Gateway) => join(gateway.dir, "state", "console-ca", "ca.pem");

/** Returns the TLS error of a client that trusts a CA, or undefined. */
function tlsError(port: number, servername: string, trusted: Buffer | undefined): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, servername, ...(trusted === undefined ? {} : { ca: trusted }), rejectUnauthorized: false }, () => {
      resolve(socket.authorized ? undefined : String(socket.authorizationError));
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

async function expectInbox(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
}

test("the console works over TLS with its own CA", async ({ setup }) => {
  const { gateway, origin, port, trusting, distrusting } = setup;
  expect(await tlsError(port, host, readFileSync(ca(gateway))), "the chain, with the CA trusted").toBeUndefined();
  expect(await tlsError(port, host, undefined), "the control: without the CA").not.toBeUndefined();
  const refused = await distrusting.newPage();
  await expect(refused.goto(origin)).rejects.toThrow(/ERR_CERT_AUTHORITY_INVALID/);
  await refused.close();

  const page = await trusting.newPage();
  const link = await gateway.link();
  expect(link.startsWith(`${origin}/login#token=`)).toBe(true);
  await page.goto(link);
  await expectInbox(page);
  expect(await page.evaluate(() => isSecureContext)).toBe(true);
  const cookies = await page.context().cookies();
  expect(cookies.map(({ name }) => name)).toContain("__Host-palyra");
  expect(cookies.filter(({ secure }) => !secure)).toEqual([]);

  // Workers run.
  await page.goto(`${origin}/journal/verify`);
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Verified: integrity only/)).toBeVisible();

  // Passkeys require a certificate that the browser trusts.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  await page.goto(`${origin}/passkeys`);
  await page.getByRole("button", { name: "Enrol a passkey" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("laptop");
  await page.getByRole("dialog").getByRole("button", { name: "Create the passkey" }).click();
  await expect(page.getByRole("dialog").getByText("must be confirmed before it can prove presence")).toBeVisible();
  expect((await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials).toMatchObject([{ rpId: host }]);

  // The live stream works: an approval appears and is answered.
  await page.goto(`${origin}/approvals`);
  const call = gateway.call("fs.write", { path: "tls.txt", content: "x\n" });
  await page.getByRole("link", { name: "tls.txt" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  expect((await call.done).code).toBe(0);
  await page.context().close();
});

test("a user logs in at the identity provider, answers and logs out", async ({ setup }) => {
  const { gateway, origin, trusting } = setup;
  const page = await trusting.newPage();
  await page.goto(origin);
  await expectAccessible(page);
  await page.getByRole("link", { name: "log in at the identity provider" }).click();
  await page.getByRole("link", { name: "Sign in as carla" }).click();
  await expectInbox(page);
  await expect(page.getByRole("button", { name: "user:carla" })).toBeVisible();
  // Neither the code nor the token is in the address.
  expect(page.url()).not.toMatch(/code=|token/);

  const call = gateway.call("fs.write", { path: "provider.txt", content: "x\n" });
  await page.getByRole("link", { name: "provider.txt" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  expect((await call.done).code).toBe(0);
  const { votes } = JSON.parse(await gateway.palyra("approvals", "show", /approvals\/([0-9A-Z]{26})/.exec(page.url())?.[1] ?? "", "-o", "json")) as { votes: { user: string; surface: string; paired?: boolean }[] };
  expect(votes).toMatchObject([{ user: "user:carla", surface: "console" }]);
  expect(votes[0]?.paired ?? false, "no device holds its key").toBe(false);

  await page.getByRole("button", { name: "user:carla" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByText(/You are logged out/)).toBeVisible();
  await page.context().close();
});

test("a refusal or a missing role at the identity provider fails the login", async ({ setup }) => {
  const page = await setup.trusting.newPage();
  for (const answer of ["Refuse", "Sign in as dora"]) {
    await page.goto(`${setup.origin}/login`);
    await page.getByRole("link", { name: "log in at the identity provider" }).click();
    await page.getByRole("link", { name: answer }).click();
    await expect(page.getByRole("alert")).toContainText("The login at the identity provider was refused");
    expect(page.url()).toBe(`${setup.origin}/login`);
    expect(await storedSecret(page)).toBeUndefined();
  }
  // Texts of the address are not displayed, because anyone can craft it.
  await page.goto("about:blank");
  await page.goto(`${setup.origin}/login#error=X&message=run+this+command&remedy=at+once`);
  await expect(page.getByRole("alert")).toContainText("failed");
  await expect(page.getByText("run this command")).toHaveCount(0);
  await page.context().close();
});
