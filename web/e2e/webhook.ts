// A receiver for the gateway's webhook.
import { createHmac, randomBytes } from "node:crypto";
import type { Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export class WebhookReceiver {
  readonly #server: Server;
  readonly #key = randomBytes(32);
  /** The received bodies with a valid signature. */
  readonly received: string[] = [];

  private constructor() {
    this.#server = createServer((request, response) => {
      void text(request).then((body) => {
        const signed = `${String(request.headers["webhook-id"])}.${String(request.headers["webhook-timestamp"])}.${body}`;
        const good = request.headers["webhook-signature"] === `v1,${createHmac("sha256", this.#key).update(signed).digest("base64")}`;
        if (good) this.received.push(body);
        response.writeHead(good ? 204 : 401).end();
      });
    });
  }

  static async start(): Promise<WebhookReceiver> {
    const hook = new WebhookReceiver();
    await new Promise<void>((ready) => hook.#server.listen(0, "127.0.0.1", ready));
    return hook;
  }

  /** The target in the gateway's configuration, only for freezes. */
  get settings(): string {
    return `[[notify]]
name = "ops"
type = "webhook"
url = "http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook"
secrets = ["vault://global/ops-webhook"]
events = ["frozen"]
`;
  }

  get secret(): string {
    return `whsec_${this.#key.toString("base64")}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }
}
