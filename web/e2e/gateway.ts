// A real palyrad with a directory of its own, and agents that call tools through it.
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync } from "node:fs";
import { request } from "node:http";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { BrowserContext } from "@playwright/test";
import { patience } from "./patience";

export const programs = resolve(process.env.PALYRA_BIN ?? join(import.meta.dirname, "../../bin"));

export interface Result {
  code: number;
  out: string;
  err: string;
}

/** What the gateway says of an ask. */
export interface Ask {
  approval_id: string;
  call_digest: string;
  state: string;
  prompt: { lead: string; tool: string };
}

/** The secret of the console's session among the names of what a browser stores, or undefined. */
export function secretIn(names: readonly string[]): string | undefined {
  const start = "palyra.session.";
  return names.find((name) => name.startsWith(start))?.slice(start.length);
}

/** What a browser keeps of a login. */
export type State = Awaited<ReturnType<BrowserContext["storageState"]>>;

/** A command that runs; done has its end. */
export interface Running {
  done: Promise<Result>;
  /** Ends it; nothing happens where it has ended. */
  stop: () => void;
}

/** Returns a free loopback port below the ephemeral range: no other process receives it while palyrad restarts. */
export async function freePort(): Promise<number> {
  const port = randomInt(20_000, 32_000);
  const server = createServer();
  const free = await new Promise<boolean>((tried) => {
    server.once("error", () => tried(false));
    server.listen(port, "127.0.0.1", () => tried(true));
  });
  if (!free) return freePort();
  await new Promise((closed) => server.close(closed));
  return port;
}

export class Gateway {
  readonly dir: string;
  #daemon: ChildProcess | undefined;
  #log = "";
  readonly #running = new Set<ChildProcess>();
  /** How often palyrad was started: sessions end with its process. */
  starts = 0;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /**
   * Makes the directories and starts palyrad. The settings are TOML after the common ones; DIR in them is the
   * directory, where the files are put. The console listens at the port, or at one that is free, which it keeps over a restart.
   */
  static async start(settings = "", files: Readonly<Record<string, string>> = {}, port?: number): Promise<Gateway> {
    for (const name of ["palyrad", "palyra"]) {
      if (!existsSync(join(programs, name))) throw new Error(`${join(programs, name)} is not there: run \`make build\` first`);
    }
    const gateway = new Gateway(await mkdtemp(join(tmpdir(), "palyra-console.")));
    await mkdir(gateway.#path("workspace"), { recursive: true });
    await mkdir(gateway.#path("policies"), { recursive: true });
    await writeFile(
      gateway.#path("palyra.toml"),
      `state_dir = ${JSON.stringify(gateway.#path("state"))}
vault.backend = "file"
roles = ["security"]
[listen]
api = "127.0.0.1:0"
metrics = ""
console = "127.0.0.1:${port ?? (await freePort())}"
[policy]
dir = ${JSON.stringify(gateway.#path("policies"))}
[[workspaces]]
name = "default"
path = ${JSON.stringify(gateway.#path("workspace"))}
[rate_limits.read]
per_second = 1000
burst = 2000
[rate_limits.decide]
per_second = 100
burst = 300
${settings.replaceAll("DIR", gateway.dir)}`,
      { mode: 0o600 },
    );
    for (const [name, text] of Object.entries(files)) await writeFile(gateway.#path(name), text, { mode: 0o600 });
    await gateway.restart();
    return gateway;
  }

  /** A gateway that runs already, in a directory like those that start makes. It is not this one's to end. */
  static async attach(dir: string): Promise<Gateway> {
    const gateway = new Gateway(dir);
    gateway.#address = await gateway.#findAddress();
    return gateway;
  }

  #path(...parts: string[]): string {
    return join(this.dir, ...parts);
  }

  /** A file of the workspace. */
  file(name: string): string {
    return this.#path("workspace", name);
  }

  get log(): string {
    return this.#log;
  }

  /** Starts palyrad, after it was stopped if it runs. */
  async restart(): Promise<void> {
    await this.end();
    const daemon = spawn(join(programs, "palyrad"), ["--config", this.#path("palyra.toml")], { cwd: this.dir, env: this.#env(), stdio: ["ignore", "pipe", "pipe"] });
    this.#daemon = daemon;
    this.#log = "";
    this.starts++;
    await new Promise<void>((ready, failed) => {
      const heard = (chunk: Buffer) => {
        this.#log += chunk.toString();
        if (this.#log.includes('msg="palyrad is ready"')) ready();
      };
      daemon.stdout.on("data", heard);
      daemon.stderr.on("data", heard);
      daemon.once("exit", (code) => failed(new Error(`palyrad ended with ${code ?? "a signal"} before it was ready:\n${this.#log}`)));
    });
    this.#address = await this.#findAddress();
  }

  /** Stops palyrad; restart starts it again. */
  async end(): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = undefined;
    if (daemon?.exitCode !== null || daemon.signalCode !== null) return;
    const gone = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill("SIGTERM");
    await gone;
  }

  /** Ends palyrad and every command, and removes the directory. */
  async stop(): Promise<void> {
    for (const child of this.#running) child.kill("SIGTERM");
    await this.end();
    await rm(this.dir, { recursive: true, force: true });
  }

  #env(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: this.dir, LANG: "C.UTF-8", ...more };
  }

  /** Starts `palyra` as a member, the local operator unless another is named. */
  start(args: readonly string[], { as, input }: { as?: string; input?: string } = {}): Running {
    const env = as === undefined ? {} : { PALYRA_CREDENTIALS: this.#path(as), PALYRA_ADDRESS: this.#address };
    return this.#spawn("palyra", ["--config", this.#path("palyra.toml"), ...args], this.#env(env), input);
  }

  #spawn(program: string, args: readonly string[], env: NodeJS.ProcessEnv, input = ""): Running {
    const child = spawn(join(programs, program), args, { cwd: this.dir, env, stdio: "pipe" });
    this.#running.add(child);
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    let out = "";
    let err = "";
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
    const done = new Promise<Result>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => {
        this.#running.delete(child);
        resolve({ code: code ?? -1, out, err });
      });
    });
    return { done, stop: () => child.kill("SIGTERM") };
  }

  /** Runs `palyra` to its end; a code other than 0 is an error. */
  async palyra(...args: string[]): Promise<string> {
    const result = await this.start(args).done;
    if (result.code !== 0) throw new Error(`palyra ${args.join(" ")}: exit code ${result.code}\n${result.err}`);
    return result.out;
  }

  /** Runs a command of palyrad on the gateway's host to its end; a code other than 0 is an error. */
  async palyrad(...args: string[]): Promise<string> {
    const result = await this.#spawn("palyrad", ["--config", this.#path("palyra.toml"), ...args], this.#env()).done;
    if (result.code !== 0) throw new Error(`palyrad ${args.join(" ")}: exit code ${result.code}\n${result.err}`);
    return result.out;
  }

  /** Adds a member, whose name as() takes then. */
  async add(name: string, ...flags: string[]): Promise<void> {
    await this.palyrad("operator", "add", name, "--yes", "--out", this.#path(name), ...flags);
  }

  /** Where the API is: host and port. */
  get address(): string {
    return this.#address;
  }

  #address = "";
  async #findAddress(): Promise<string> {
    const text = await readFile(this.#path("state", "operator", "endpoint"), "utf8");
    const found = /^address=(.*)$/m.exec(text)?.[1];
    if (found === undefined) throw new Error(`the endpoint file names no address: ${text}`);
    return found.trim();
  }

  /** A link that lets a member into the console, once. */
  async link(as?: string): Promise<string> {
    const result = await this.start(["console", "--no-browser"], as === undefined ? {} : { as }).done;
    if (result.code !== 0) throw new Error(`palyra console: ${result.err}`);
    return result.out.trim();
  }

  /** Whether a login still counts: some tests end theirs. */
  knows(state: State): Promise<boolean> {
    const [kept] = state.origins;
    const secret = secretIn(kept?.localStorage.map(({ name }) => name) ?? []);
    if (kept === undefined || secret === undefined) return Promise.resolve(false);
    const { origin, host, port } = new URL(kept.origin);
    const headers = { "Content-Type": "application/json", Host: host, Origin: origin, Cookie: state.cookies.map((c) => `${c.name}=${c.value}`).join("; "), "Palyra-Console-Secret": secret };
    return new Promise((resolve) => {
      const asked = request({ host: "127.0.0.1", port, method: "POST", path: "/palyra.v1.ConsoleService/Whoami", headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode === 200);
      });
      asked.on("error", () => resolve(false));
      asked.end("{}");
    });
  }

  /** An agent proposes a call, which waits for people where policy asks. */
  call(tool: string, input: object, as = "helper"): Running {
    return this.start(["call", tool, "--input", "-", "-o", "json"], { as, input: JSON.stringify(input) });
  }

  /** The newest ask that names a word, or is of the tool of that name, as the gateway has it. */
  async ask(named: string): Promise<Ask | undefined> {
    const list = JSON.parse(await this.palyra("approvals", "list", "--all", "-o", "json")) as { items: Ask[] };
    return list.items.find((ask) => ask.prompt.lead.includes(named) || ask.prompt.tool === named);
  }

  /** Answers an ask from a terminal, as soon as it is there. */
  async decide(named: string, answer: readonly string[], as?: string): Promise<void> {
    const waits = async () => {
      const ask = await this.ask(named);
      return ask?.state === "pending" ? ask : undefined;
    };
    let ask = await waits();
    for (const end = Date.now() + patience; ask === undefined && Date.now() < end; ask = await waits());
    if (ask === undefined) throw new Error(`no ask that waits names ${named}`);
    const result = await this.start(["approvals", "decide", ask.approval_id, ...answer, "--digest", ask.call_digest], as === undefined ? {} : { as }).done;
    if (result.code !== 0) throw new Error(`deciding ${named}: ${result.err}`);
  }

  /** Puts a policy in its place, whole: palyrad follows the directory. */
  async policy(name: string, text: string): Promise<void> {
    const fresh = this.#path(`new-${name}`);
    await writeFile(fresh, text);
    await rename(fresh, this.#path("policies", name));
  }
}
