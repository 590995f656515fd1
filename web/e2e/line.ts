// A line between the browser and the gateway that can be cut: a proxy of the browser's.
import type { Server } from "node:http";
import { createServer, request } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export class Line {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #whole = true;
  #late: { path: string; until: Promise<void> } | undefined;

  private constructor() {
    this.#server = createServer((asked, answer) => {
      const target = new URL(asked.url ?? "");
      const onward = request({ host: "127.0.0.1", port: target.port, method: asked.method, path: target.pathname + target.search, headers: asked.headers }, (answered) => {
        const pass = () => {
          answer.writeHead(answered.statusCode ?? 502, answered.headers);
          answered.pipe(answer);
        };
        if (this.#late !== undefined && target.pathname.endsWith(this.#late.path)) void this.#late.until.then(pass);
        else pass();
      });
      onward.on("error", () => answer.destroy());
      answer.on("close", () => onward.destroy());
      asked.pipe(onward);
    });
    this.#server.on("connection", (socket) => {
      if (!this.#whole) socket.destroy();
      this.#open.add(socket);
      socket.on("close", () => this.#open.delete(socket));
    });
  }

  static async lay(): Promise<Line> {
    const line = new Line();
    await new Promise<void>((ready) => line.#server.listen(0, "127.0.0.1", ready));
    return line;
  }

  /** The address, for the browser's settings. */
  get proxy(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends what is open and lets nothing through until mend. */
  cut(): void {
    this.#whole = false;
    for (const socket of this.#open) socket.destroy();
  }

  /** Answers from paths that end so wait until the function is called; the gateway is asked at once. */
  hold(path: string): () => void {
    let go: () => void = () => undefined;
    this.#late = { path, until: new Promise((resolve) => (go = resolve)) };
    return () => {
      this.#late = undefined;
      go();
    };
  }

  mend(): void {
    this.#whole = true;
  }

  async remove(): Promise<void> {
    const gone = new Promise((closed) => this.#server.close(closed));
    this.cut();
    await gone;
  }
}
