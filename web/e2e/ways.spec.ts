// Other ways in: over TLS by the console's own CA, and by an identity provider.
import { X509Certificate, createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import type { Browser, Page } from "@playwright/test";
import { test as base, expect, expectAccessible, keptSecret } from "./fixtures";
import { Gateway, freePort } from "./gateway";
import { patience } from "./patience";
import { Provider } from "./provider";

const host = "console.palyra.test";

interface Place {
  gateway: Gateway;
  origin: string;
  port: number;
  /** A browser that finds the name here, and that trusts the console's CA and nothing else that is new. */
  trusting: Browser;
  /** The same, which trusts what every browser trusts. */
  stranger: Browser;
}

const test = base.extend<object, { place: Place }>({
  place: [
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
      await gateway.add("helper", "--owner", "local", "--role", "agent");
      const key = new X509Certificate(readFileSync(ca(gateway))).publicKey.export({ type: "spki", format: "der" });
      const args = [...(launchOptions.args ?? []), `--host-resolver-rules=MAP ${host} 127.0.0.1`];
      const stranger = await playwright.chromium.launch({ ...launchOptions, args });
      const trusting = await playwright.chromium.launch({ ...launchOptions, args: [...args, `--ignore-certificate-errors-spki-list=${createHash("sha256").update(key).digest("base64")}`] });
      await use({ gateway, origin, port, trusting, stranger });
      await trusting.close();
      await stranger.close();
      await gateway.stop();
      await provider.stop();
    },
    { scope: "worker", timeout: 5 * patience },
  ],
});

const ca = (gateway: Gateway) => join(gateway.dir, "state", "console-ca", "ca.pem");

/** What a client that trusts a CA finds of the chain for a name; undefined where it is content. */
function distrust(port: number, servername: string, trusted: Buffer | undefined): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, servername, ...(trusted === undefined ? {} : { ca: trusted }), rejectUnauthorized: false }, () => {
      resolve(socket.authorized ? undefined : String(socket.authorizationError));
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

async function inboxOf(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
}

test("over TLS by a CA of its own the console is all that it is on loopback", async ({ place }) => {
  const { gateway, origin, port, trusting, stranger } = place;
  expect(await distrust(port, host, readFileSync(ca(gateway))), "the chain, for who trusts the CA").toBeUndefined();
  expect(await distrust(port, host, undefined), "the control: for who does not").not.toBeUndefined();
  const refused = await stranger.newPage();
  await expect(refused.goto(origin)).rejects.toThrow(/ERR_CERT_AUTHORITY_INVALID/);
  await refused.close();

  const page = await trusting.newPage();
  const link = await gateway.link();
  expect(link.startsWith(`${origin}/login#token=`)).toBe(true);
  await page.goto(link);
  await inboxOf(page);
  expect(await page.evaluate(() => isSecureContext)).toBe(true);
  const cookies = await page.context().cookies();
  expect(cookies.map(({ name }) => name)).toContain("__Host-palyra");
  expect(cookies.filter(({ secure }) => !secure)).toEqual([]);

  // Workers run.
  await page.goto(`${origin}/journal/verify`);
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await expect(page.getByText(/^Whole\. Whose it is was not proven/)).toBeVisible();

  // A passkey is made, which no page with a certificate that the browser doubts can do.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  await page.goto(`${origin}/passkeys`);
  await page.getByRole("button", { name: "Enrol a passkey" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("laptop");
  await page.getByRole("dialog").getByRole("button", { name: "Make the passkey" }).click();
  await expect(page.getByRole("dialog").getByText("proves nothing before it is confirmed")).toBeVisible();
  expect((await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials).toMatchObject([{ rpId: host }]);

  // And the live stream is there: an ask appears, and is answered.
  await page.goto(`${origin}/approvals`);
  const call = gateway.call("fs.write", { path: "tls.txt", content: "x\n" });
  await page.getByRole("link", { name: "tls.txt" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText("The gateway recorded your yes")).toBeVisible();
  expect((await call.done).code).toBe(0);
  await page.context().close();
});

test("a person logs in at the identity provider, answers, and logs out", async ({ place }) => {
  const { gateway, origin, trusting } = place;
  const page = await trusting.newPage();
  await page.goto(origin);
  await expectAccessible(page);
  await page.getByRole("link", { name: "log in at the identity provider" }).click();
  await page.getByRole("link", { name: "Sign in as carla" }).click();
  await inboxOf(page);
  await expect(page.getByRole("button", { name: "user:carla" })).toBeVisible();
  // Neither the code nor the token is in the address or in the history.
  expect(page.url()).not.toMatch(/code=|token/);

  const call = gateway.call("fs.write", { path: "provider.txt", content: "x\n" });
  await page.getByRole("link", { name: "provider.txt" }).click();
  await page.getByRole("button", { name: "Allow once" }).click();
  await expect(page.getByText("The gateway recorded your yes")).toBeVisible();
  expect((await call.done).code).toBe(0);
  const { votes } = JSON.parse(await gateway.palyra("approvals", "show", /approvals\/([0-9A-Z]{26})/.exec(page.url())?.[1] ?? "", "-o", "json")) as { votes: { user: string; surface: string; paired?: boolean }[] };
  expect(votes).toMatchObject([{ user: "user:carla", surface: "console" }]);
  expect(votes[0]?.paired ?? false, "no device holds its key").toBe(false);

  await page.getByRole("button", { name: "user:carla" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByText(/You are logged out/)).toBeVisible();
  await page.context().close();
});

test("who refuses, or is in no group with a role, is told so and is not in", async ({ place }) => {
  const page = await place.trusting.newPage();
  for (const answer of ["Refuse", "Sign in as dora"]) {
    await page.goto(`${place.origin}/login`);
    await page.getByRole("link", { name: "log in at the identity provider" }).click();
    await page.getByRole("link", { name: answer }).click();
    await expect(page.getByRole("alert")).toContainText("The login at the identity provider was refused");
    expect(page.url()).toBe(`${place.origin}/login`);
    expect(await keptSecret(page)).toBeUndefined();
  }
  // What an address says is not repeated: it could be anybody's.
  await page.goto("about:blank");
  await page.goto(`${place.origin}/login#error=X&message=run+this+command&remedy=at+once`);
  await expect(page.getByRole("alert")).toContainText("came to nothing");
  await expect(page.getByText("run this command")).toHaveCount(0);
  await page.context().close();
});
