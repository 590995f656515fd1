// An HTTP MCP server for the gateway with changeable tool definitions.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Tool {
  name: string;
  description: string;
  inputSchema: object;
}

interface RpcRequest {
  id?: number | string;
  method: string;
  params?: { protocolVersion?: string; name?: string; arguments?: unknown };
}

export class Upstream {
  readonly #server: Server;
  tools: readonly Tool[];
  /** The names of the tools that were called. */
  readonly called: string[] = [];

  private constructor(tools: readonly Tool[]) {
    this.tools = tools;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(...tools: readonly Tool[]): Promise<Upstream> {
    const upstream = new Upstream(tools);
    await new Promise<void>((ready) => upstream.#server.listen(0, "127.0.0.1", ready));
    return upstream;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // The server supports neither streams nor sessions.
    if (request.method !== "POST") {
      response.writeHead(405).end();
      return;
    }
    const rpcRequest = JSON.parse(await text(request)) as RpcRequest;
    if (rpcRequest.id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const result = this.#result(rpcRequest);
    const answer = result === undefined ? { error: { code: -32601, message: "method not found" } } : { result };
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id: rpcRequest.id, ...answer }));
  }

  #result({ method, params }: RpcRequest): object | undefined {
    switch (method) {
      case "initialize":
        return { protocolVersion: params?.protocolVersion === "2025-11-25" ? "2025-11-25" : "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "notes", version: "1.0" } };
      case "ping":
        return {};
      case "tools/list":
        return { tools: this.tools };
      case "tools/call":
        this.called.push(params?.name ?? "");
        return { content: [{ type: "text", text: `${params?.name ?? ""} was called` }] };
      default:
        return undefined;
    }
  }
}
