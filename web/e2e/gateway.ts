// Runs palyrad in a temporary directory, with agents that call tools.
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
import { stepTimeout } from "./timeout";

export const programs = resolve(process.env.PALYRA_BIN ?? join(import.meta.dirname, "../../bin"));

export interface Result {
  code: number;
  out: string;
  err: string;
}

/** An approval in the output of `palyra approvals list`. */
export interface ListedApproval {
  approval_id: string;
  call_digest: string;
  state: string;
  prompt: { lead: string; tool: string };
}

/** Returns the session secret from the names of storage items, or undefined. */
export function findSecret(names: readonly string[]): string | undefined {
  const start = "palyra.session.";
  return names.find((name) => name.startsWith(start))?.slice(start.length);
}

/** The browser state of a login. */
export type State = Awaited<ReturnType<BrowserContext["storageState"]>>;

/** A running command; done resolves with its result. */
export interface Running {
  done: Promise<Result>;
  /** Stops it; has no effect if it has ended. */
  stop: () => void;
}

/** Returns a free loopback port below the ephemeral range: no other process receives it while palyrad restarts. */
export async function freePort(): Promise<number> {
  const port = randomInt(20_000, 32_000);
  const server = createServer();
  const isFree = await new Promise<boolean>((result) => {
    server.once("error", () => result(false));
    server.listen(port, "127.0.0.1", () => result(true));
  });
  if (!isFree) return freePort();
  await new Promise((closed) => server.close(closed));
  return port;
}

export class Gateway {
  readonly dir: string;
  #daemon: ChildProcess | undefined;
  #log = "";
  readonly #running = new Set<ChildProcess>();
  /** The number of starts of palyrad; sessions end with its process. */
  starts = 0;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /**
   * Creates the directories and starts palyrad. The settings are additional TOML, in which DIR is replaced by the
   * directory with the files. The console listens on the given or a free port and keeps it over a restart.
   */
  static async start(settings = "", files: Readonly<Record<string, string>> = {}, port?: number): Promise<Gateway> {
    for (const name of ["palyrad", "palyra"]) {
      if (!existsSync(join(programs, name))) throw new Error(`${join(programs, name)} does not exist: run \`make build\` first`);
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

  /** Attaches to a running gateway in a directory like those of start. The caller does not own its process. */
  static async attach(dir: string): Promise<Gateway> {
    const gateway = new Gateway(dir);
    gateway.#address = await gateway.#findAddress();
    return gateway;
  }

  #path(...parts: string[]): string {
    return join(this.dir, ...parts);
  }

  /** Returns the path of a file in the workspace. */
  file(name: string): string {
    return this.#path("workspace", name);
  }

  get log(): string {
    return this.#log;
  }

  /** Stops palyrad if it is running, and starts it. */
  async restart(): Promise<void> {
    await this.stopDaemon();
    const daemon = spawn(join(programs, "palyrad"), ["--config", this.#path("palyra.toml")], { cwd: this.dir, env: this.#env(), stdio: ["ignore", "pipe", "pipe"] });
    this.#daemon = daemon;
    this.#log = "";
    this.starts++;
    await new Promise<void>((ready, failed) => {
      const onOutput = (chunk: Buffer) => {
        this.#log += chunk.toString();
        if (this.#log.includes('msg="palyrad is ready"')) ready();
      };
      daemon.stdout.on("data", onOutput);
      daemon.stderr.on("data", onOutput);
      daemon.once("exit", (code) => failed(new Error(`palyrad ended with ${code ?? "a signal"} before it was ready:\n${this.#log}`)));
    });
    this.#address = await this.#findAddress();
  }

  /** Stops palyrad; restart starts it again. */
  async stopDaemon(): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = undefined;
    if (daemon?.exitCode !== null || daemon.signalCode !== null) return;
    const exited = new Promise((resolve) => daemon.once("exit", resolve));
    daemon.kill("SIGTERM");
    await exited;
  }

  /** Stops palyrad and all commands, and removes the directory. */
  async stop(): Promise<void> {
    for (const child of this.#running) child.kill("SIGTERM");
    await this.stopDaemon();
    await rm(this.dir, { recursive: true, force: true });
  }

  #env(more: Record<string, string> = {}): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: this.dir, LANG: "C.UTF-8", ...more };
  }

  /** Starts `palyra` as a member, by default the local operator. */
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

  /** Runs `palyra` and returns its output; throws for an exit code other than 0. */
  async palyra(...args: string[]): Promise<string> {
    const result = await this.start(args).done;
    if (result.code !== 0) throw new Error(`palyra ${args.join(" ")}: exit code ${result.code}\n${result.err}`);
    return result.out;
  }

  /** Runs a command of palyrad on the gateway's host; throws for an exit code other than 0. */
  async palyrad(...args: string[]): Promise<string> {
    const result = await this.#spawn("palyrad", ["--config", this.#path("palyra.toml"), ...args], this.#env()).done;
    if (result.code !== 0) throw new Error(`palyrad ${args.join(" ")}: exit code ${result.code}\n${result.err}`);
    return result.out;
  }

  /** Adds a member with its credentials. */
  async addMember(name: string, ...flags: string[]): Promise<void> {
    await this.palyrad("operator", "add", name, "--yes", "--out", this.#path(name), ...flags);
  }

  /** The address of the API: host and port. */
  get address(): string {
    return this.#address;
  }

  #address = "";
  async #findAddress(): Promise<string> {
    const text = await readFile(this.#path("state", "operator", "endpoint"), "utf8");
    const found = /^address=(.*)$/m.exec(text)?.[1];
    if (found === undefined) throw new Error(`the endpoint file has no address: ${text}`);
    return found.trim();
  }

  /** Returns a single-use login link for a member. */
  async link(as?: string): Promise<string> {
    const result = await this.start(["console", "--no-browser"], as === undefined ? {} : { as }).done;
    if (result.code !== 0) throw new Error(`palyra console: ${result.err}`);
    return result.out.trim();
  }

  /** Whether a login is still valid: some tests log out. */
  isLoggedIn(state: State): Promise<boolean> {
    const [kept] = state.origins;
    const secret = findSecret(kept?.localStorage.map(({ name }) => name) ?? []);
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

  /** Proposes a call as an agent; it waits if policy requires approval. */
  call(tool: string, input: object, as = "helper"): Running {
    return this.start(["call", tool, "--input", "-", "-o", "json"], { as, input: JSON.stringify(input) });
  }

  /** Returns the newest approval that contains a text or is for the tool of that name. */
  async findApproval(text: string): Promise<ListedApproval | undefined> {
    const list = JSON.parse(await this.palyra("approvals", "list", "--all", "-o", "json")) as { items: ListedApproval[] };
    return list.items.find((approval) => approval.prompt.lead.includes(text) || approval.prompt.tool === text);
  }

  /** Answers an approval from a terminal, as soon as it is pending. */
  async decide(named: string, answer: readonly string[], as?: string): Promise<void> {
    const findPending = async () => {
      const approval = await this.findApproval(named);
      return approval?.state === "pending" ? approval : undefined;
    };
    let approval = await findPending();
    for (const end = Date.now() + stepTimeout; approval === undefined && Date.now() < end; approval = await findPending());
    if (approval === undefined) throw new Error(`no pending approval contains ${named}`);
    const result = await this.start(["approvals", "decide", approval.approval_id, ...answer, "--digest", approval.call_digest], as === undefined ? {} : { as }).done;
    if (result.code !== 0) throw new Error(`deciding ${named}: ${result.err}`);
  }

  /** Writes a policy file atomically, because palyrad watches the directory. */
  async writePolicy(name: string, text: string): Promise<void> {
    const temporary = this.#path(`new-${name}`);
    await writeFile(temporary, text);
    await rename(temporary, this.#path("policies", name));
  }
}
