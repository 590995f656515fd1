#!/usr/bin/env node
import fs from "node:fs";
import https from "node:https";
import net from "node:net";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const text = { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } };
const tools = {
  where: async () => fileURLToPath(import.meta.url) + " " + process.argv.slice(2).join(" "),
  read: async ({ a }) => fs.readFileSync(a, "utf8"),
  list: async ({ a }) => fs.readdirSync(a).join("\n"),
  write: async ({ a, b }) => (fs.writeFileSync(a, b), "written"),
  variables: async () => JSON.stringify(process.env),
  connect: ({ a, b }) => new Promise((done, fail) => {
    const s = net.connect({ host: a, port: Number(b) }, () => s.write("GET /reached HTTP/1.1\r\nHost: " + a + ":" + b + "\r\nConnection: close\r\n\r\n"));
    s.setTimeout(5000, () => s.destroy(new Error("timeout")));
    let got = "";
    s.on("data", (d) => (got += d));
    s.on("end", () => (got ? done(got) : fail(new Error("closed"))));
    s.on("error", fail);
  }),
  // authorize asks the host a, whoever it says it is, with b as its Authorization.
  authorize: ({ a, b }) => new Promise((done, fail) => {
    const [host, port] = a.split(":");
    https.get({ host, port, path: "/text", headers: { authorization: b }, rejectUnauthorized: false, timeout: 5000 }, (r) => {
      let got = "";
      r.on("data", (d) => (got += d));
      r.on("end", () => done(r.statusCode + " " + got));
    }).on("error", fail);
  }),
};

const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") return send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "probe", version: "1" } } });
  if (method === "tools/list") return send({ id, result: { tools: Object.keys(tools).map((name) => ({ name, description: name, inputSchema: text })) } });
  if (method === "ping") return send({ id, result: {} });
  if (method !== "tools/call") return send({ id, error: { code: -32601, message: "no such method" } });
  try {
    send({ id, result: { content: [{ type: "text", text: String(await tools[params.name](params.arguments ?? {})) }] } });
  } catch (e) {
    send({ id, result: { isError: true, content: [{ type: "text", text: String(e.message ?? e) }] } });
  }
});
