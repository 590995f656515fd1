// An identity provider that speaks OpenID Connect: discovery, keys, and the authorization code flow with PKCE.
import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Account {
  subject: string;
  name: string;
  groups: readonly string[];
}

interface PendingLogin {
  person: Account;
  redirect: string;
  challenge: string;
  nonce: string;
}

const client = "palyra";
const base64url = (value: string | Buffer) => Buffer.from(value).toString("base64url");

/** The provider. Its page has a link for each account, and one to refuse. */
export class Provider {
  readonly #server: Server;
  readonly #accounts: readonly Account[];
  readonly #key = generateKeyPairSync("ec", { namedCurve: "P-256" });
  readonly #pendingLogins = new Map<string, PendingLogin>();

  private constructor(people: readonly Account[]) {
    this.#accounts = people;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...people: readonly Account[]): Promise<Provider> {
    const provider = new Provider(people);
    await new Promise<void>((ready) => provider.#server.listen(0, "127.0.0.1", ready));
    return provider;
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.issuer);
    const json = (status: number, body: object) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        json(200, {
          issuer: this.issuer,
          authorization_endpoint: `${this.issuer}/authorize`,
          token_endpoint: `${this.issuer}/token`,
          jwks_uri: `${this.issuer}/keys`,
          response_types_supported: ["code"],
          id_token_signing_alg_values_supported: ["ES256"],
          code_challenge_methods_supported: ["S256"],
          authorization_response_iss_parameter_supported: true,
        });
        return;
      case "/keys":
        json(200, { keys: [{ ...this.#key.publicKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "ES256" }] });
        return;
      case "/authorize":
        this.#page(url.searchParams, response);
        return;
      case "/token": {
        const answer = this.#redeem(new URLSearchParams(await text(request)));
        json(answer === undefined ? 400 : 200, answer ?? { error: "invalid_grant" });
        return;
      }
      default:
        response.writeHead(404).end();
    }
  }

  // A link for each account, to the redirect with its result.
  #page(asked: URLSearchParams, response: ServerResponse): void {
    const redirect = asked.get("redirect_uri") ?? "";
    if (asked.get("client_id") !== client || asked.get("code_challenge_method") !== "S256" || !redirect.endsWith("/console/v1/callback")) {
      response.writeHead(400).end("unknown client or redirect_uri, or no PKCE");
      return;
    }
    const back = (params: Record<string, string>) => `${redirect}?${new URLSearchParams({ state: asked.get("state") ?? "", iss: this.issuer, ...params }).toString()}`;
    const links = this.#accounts.map((person) => {
      const code = randomBytes(16).toString("hex");
      this.#pendingLogins.set(code, { person, redirect, challenge: asked.get("code_challenge") ?? "", nonce: asked.get("nonce") ?? "" });
      return `<li><a href="${back({ code }).replaceAll("&", "&amp;")}">Sign in as ${person.name}</a></li>`;
    });
    links.push(`<li><a href="${back({ error: "access_denied" }).replaceAll("&", "&amp;")}">Refuse</a></li>`);
    response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(`<!doctype html><html lang="en"><title>Identity provider</title><ul>${links.join("")}</ul></html>`);
  }

  #redeem(form: URLSearchParams): object | undefined {
    const code = form.get("code") ?? "";
    const pendingLogin = this.#pendingLogins.get(code);
    this.#pendingLogins.delete(code);
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (pendingLogin === undefined || form.get("client_id") !== client || form.get("redirect_uri") !== pendingLogin.redirect || challenge !== pendingLogin.challenge) return undefined;
    const now = Math.floor(Date.now() / 1000);
    const { person, nonce } = pendingLogin;
    const claims = { iss: this.issuer, sub: person.subject, aud: client, exp: now + 300, iat: now, auth_time: now, nonce, preferred_username: person.name, groups: person.groups };
    const signed = `${base64url(JSON.stringify({ alg: "ES256", kid: "one", typ: "JWT" }))}.${base64url(JSON.stringify(claims))}`;
    const signature = sign("sha256", Buffer.from(signed), { key: this.#key.privateKey, dsaEncoding: "ieee-p1363" });
    return { access_token: randomBytes(16).toString("hex"), token_type: "Bearer", expires_in: 300, id_token: `${signed}.${base64url(signature)}` };
  }
}
