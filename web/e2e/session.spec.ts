import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { openInbox, expect, storedSecret, test } from "./fixtures";
import { countTransfer } from "./transfer";

test.use({ team: true });

test("a session revoked from a terminal ends in all tabs", async ({ openAs, gateway }) => {
  const page = await openAs("anna");
  const other = await page.context().newPage();
  await other.goto(page.url());
  await expect(other.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  const { items } = JSON.parse(await gateway.palyra("console", "sessions", "-o", "json")) as { items: { session_id: string; principal: string }[] };
  const session = items.find((s) => s.principal === "user:anna");
  await gateway.palyra("console", "revoke", session?.session_id ?? "");
  for (const tab of [page, other]) await expect(tab.getByText(/The session has ended|You are logged out/)).toBeVisible();
  for (const tab of [page, other]) expect(await storedSecret(tab)).toBeUndefined();
});

test("a link works once", async ({ page, browser, gateway }) => {
  const link = await gateway.link();
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  // The token is not in the address or the history of the browser.
  expect(page.url()).not.toContain("token");
  await page.goBack().catch(() => null);
  expect(page.url()).not.toContain("token");
  const thief = await browser.newContext();
  const theirs = await thief.newPage();
  await theirs.goto(link);
  await expect(theirs.getByRole("alert")).toBeVisible();
  await expect(theirs.getByText("palyra console", { exact: true })).toBeVisible();
  expect(await storedSecret(theirs)).toBeUndefined();
  await thief.close();
});

test("another member's login ends the previous session in other tabs", async ({ openAs, gateway }) => {
  const page = await openAs("anna");
  const other = await page.context().newPage();
  await other.goto(await gateway.link());
  await expect(other.getByRole("button", { name: "user:local" })).toBeVisible();
  await expect(page.getByRole("button", { name: "user:local" })).toBeVisible();
  await expect(page.getByRole("button", { name: "user:anna" })).toHaveCount(0);
});

/** The result of a request from a page of another origin, with the browser's credentials. */
interface Attempt {
  what: string;
  result: string;
}

test("a page of another local server has no access", async ({ inbox: page, context }) => {
  const console_ = new URL(page.url()).origin;
  const other = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<!doctype html><title>other</title>"));
  await new Promise<void>((ready) => other.listen(0, "127.0.0.1", ready));
  const port = (other.address() as AddressInfo).port;
  try {
    // The same host at another port is the same site, so the browser sends the cookie.
    for (const origin of [`http://${new URL(console_).hostname}:${port}`, `http://127.0.0.1:${port}`]) {
      const attacker = await context.newPage();
      await attacker.goto(origin);
      const attempts = await attacker.evaluate(async (target): Promise<Attempt[]> => {
        const method = `${target}/palyra.v1.ConsoleService/Whoami`;
        const all: [string, string, RequestInit][] = [
          ["JSON with the cookie", method, { method: "POST", credentials: "include", headers: { "Content-Type": "application/json" }, body: "{}" }],
          ["a simple request with the cookie", method, { method: "POST", credentials: "include", headers: { "Content-Type": "text/plain" }, body: "{}" }],
          ["a guessed secret", method, { method: "POST", credentials: "include", headers: { "Content-Type": "application/json", "Palyra-Console-Secret": "guess" }, body: "{}" }],
          ["a logout", `${target}/console/v1/logout`, { method: "POST", credentials: "include" }],
          ["the page", `${target}/`, { credentials: "include" }],
        ];
        const results: Attempt[] = [];
        for (const [what, url, init] of all) {
          results.push({ what, result: await fetch(url, init).then(async (r) => `${r.status} ${await r.text()}`, () => "refused by the browser") });
        }
        results.push({ what: "no-cors", result: await fetch(method, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).then((r) => r.type, () => "refused by the browser") });
        return results;
      }, console_);
      expect(attempts).toHaveLength(6);
      for (const { what, result } of attempts) expect(result, `${what} from ${origin}`).toMatch(/^(refused by the browser|opaque|40[13] .*)$/);
      await attacker.close();
    }
    // The session is still valid.
    await page.reload();
    await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  } finally {
    await new Promise((closed) => other.close(closed));
  }
});

test("a stolen cookie, a forged origin and a rebound name have no access", async ({ inbox: page, context }) => {
  const { origin, host, port } = new URL(page.url());
  const cookie = (await context.cookies()).map((c) => `${c.name}=${c.value}`).join("; ");
  expect(cookie).not.toBe("");
  const secret = (await storedSecret(page)) ?? "";
  expect(secret).not.toBe("");
  const status = (headers: Record<string, string>) =>
    new Promise<number>((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, method: "POST", path: "/palyra.v1.ConsoleService/Whoami", headers: { "Content-Type": "application/json", Host: host, Origin: origin, ...headers } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      sent.on("error", reject);
      sent.end("{}");
    });
  const both = { Cookie: cookie, "Palyra-Console-Secret": secret };
  expect(await status(both), "the control: both halves, from the console's own origin").toBe(200);
  expect(await status({ Cookie: cookie }), "the cookie alone").toBe(401);
  expect(await status({ "Palyra-Console-Secret": secret }), "the secret alone").toBe(401);
  for (const name of ["http://evil.example", `http://127.0.0.1:${port}`, "null"]) {
    expect([401, 403], `the origin ${name}`).toContain(await status({ ...both, Origin: name }));
  }
  for (const name of ["evil.example", "127.0.0.1", "localhost", "other.localhost"]) {
    expect([401, 403, 421], `the name ${name}`).toContain(await status({ ...both, Host: `${name}:${port}` }));
  }
});

test("the first load is small", async ({ page, gateway }) => {
  const transferred = await countTransfer(page);
  await openInbox(page, await gateway.link());
  // The list can contain approvals of other tests.
  await expect(page.getByText(/No pending approvals|End of the list\./)).toBeVisible();
  expect(transferred()).toBeGreaterThan(100 << 10); // the counter works
  expect(transferred()).toBeLessThan(250 << 10);
});
