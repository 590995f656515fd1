// A proxy between the browser and the gateway that can interrupt connections.
import type { Server } from "node:http";
import { createServer, request } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export class InterruptibleProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isConnected = true;
  #delayed: { path: string; until: Promise<void> } | undefined;

  private constructor() {
    this.#server = createServer((asked, answer) => {
      const target = new URL(asked.url ?? "");
      const onward = request({ host: "127.0.0.1", port: target.port, method: asked.method, path: target.pathname + target.search, headers: asked.headers }, (answered) => {
        const pass = () => {
          answer.writeHead(answered.statusCode ?? 502, answered.headers);
          answered.pipe(answer);
        };
        if (this.#delayed !== undefined && target.pathname.endsWith(this.#delayed.path)) void this.#delayed.until.then(pass);
        else pass();
      });
      onward.on("error", () => answer.destroy());
      answer.on("close", () => onward.destroy());
      asked.pipe(onward);
    });
    this.#server.on("connection", (socket) => {
      if (!this.#isConnected) socket.destroy();
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<InterruptibleProxy> {
    const proxy = new InterruptibleProxy();
    await new Promise<void>((ready) => proxy.#server.listen(0, "127.0.0.1", ready));
    return proxy;
  }

  /** The address, for the browser's settings. */
  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Closes all connections and refuses new ones until mend. */
  interrupt(): void {
    this.#isConnected = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Delays the responses of paths with this suffix until the returned function is called; requests are not delayed. */
  delay(path: string): () => void {
    let go: () => void = () => undefined;
    this.#delayed = { path, until: new Promise((resolve) => (go = resolve)) };
    return () => {
      this.#delayed = undefined;
      go();
    };
  }

  restore(): void {
    this.#isConnected = true;
  }

  async stop(): Promise<void> {
    const gone = new Promise((closed) => this.#server.close(closed));
    this.interrupt();
    await gone;
  }
}
