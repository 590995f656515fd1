// README, to the letter: from the build to the first decision.
import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { test as base, expect } from "@playwright/test";
import { programs } from "./gateway";

const repository = resolve(import.meta.dirname, "../..");

/** A newcomer's directory with what the build made, and the commands that were typed in it. */
class Newcomer {
  readonly dir: string;
  readonly #groups: number[] = [];
  private constructor(dir: string) {
    this.dir = dir;
  }

  static async arrive(): Promise<Newcomer> {
    const one = new Newcomer(await mkdtemp(join(tmpdir(), "palyra-first.")));
    await mkdir(one.at("home"));
    await mkdir(one.at("src"));
    await mkdir(one.at("path"));
    await symlink(programs, one.at("src/bin"));
    // The desktop's way to a browser: it notes what it was told to open.
    await writeFile(one.at("path/xdg-open"), `#!/bin/sh\nprintf %s "$1" > "${one.at("opened.new")}" && mv "${one.at("opened.new")}" "${one.at("opened")}"\n`);
    await chmod(one.at("path/xdg-open"), 0o755);
    return one;
  }

  at(name: string): string {
    return join(this.dir, name);
  }

  /** Types a script into a shell, as a terminal of the newcomer's has it; ends with its last command in front. */
  type(script: string): Promise<number> {
    const shell = spawn("bash", ["-c", script], {
      cwd: this.at("src"),
      env: {
        PATH: `${this.at("path")}:${process.env.PATH ?? ""}`,
        HOME: this.at("home"),
        LANG: "C.UTF-8",
        XDG_RUNTIME_DIR: this.at("home"),
        // Ports that are free, wherever this runs.
        PALYRA_LISTEN_API: "127.0.0.1:0",
        PALYRA_LISTEN_CONSOLE: "127.0.0.1:0",
        PALYRA_LISTEN_METRICS: "127.0.0.1:0",
      },
      stdio: "ignore",
      detached: true,
    });
    if (shell.pid !== undefined) this.#groups.push(shell.pid);
    return new Promise((ended) => shell.once("exit", (code) => ended(code ?? -1)));
  }

  /** What the desktop was told to open, once it was. */
  async opened(): Promise<string> {
    await expect.poll(() => readFile(this.at("opened"), "utf8").catch(() => "")).not.toBe("");
    return readFile(this.at("opened"), "utf8");
  }

  async leave(): Promise<void> {
    for (const group of this.#groups) {
      try {
        process.kill(-group, "SIGTERM");
      } catch {
        // All of it has ended.
      }
      // Gone when nobody of the group answers.
      await expect
        .poll(() => {
          try {
            return process.kill(-group, 0);
          } catch {
            return false;
          }
        })
        .toBe(false);
    }
    await rm(this.dir, { recursive: true, force: true });
  }
}

const test = base.extend<{ newcomer: Newcomer }>({
  newcomer: async ({}, use) => {
    const newcomer = await Newcomer.arrive();
    await use(newcomer);
    await newcomer.leave();
  },
});

/** README's section on the console: its commands, and what it says to click, in bold. */
async function readme(): Promise<{ commands: string[]; clicks: string[] }> {
  const text = await readFile(join(repository, "README.md"), "utf8");
  const section = /\n## The console\n([\s\S]*?)\n## /.exec(text)?.[1] ?? "";
  const block = /```sh\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
  return {
    commands: block.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")),
    clicks: [...section.matchAll(/\*\*(.+?)\*\*/g)].map((found) => found[1] ?? ""),
  };
}

test("README leads from the build to the first decision", async ({ newcomer, page }) => {
  const { commands, clicks } = await readme();
  expect(commands.length).toBeGreaterThan(0);
  expect(commands.length, "commands").toBeLessThanOrEqual(4);
  expect(clicks.length).toBeGreaterThan(0);
  expect(clicks.length, "clicks").toBeLessThanOrEqual(6);
  await writeFile(newcomer.at("src/README.md"), "# mine\n");

  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  // Where README waits a second, a busy machine may take longer.
  const patient = (command: string) => command.replace(/^sleep \d+.*/, "until bin/palyra status > /dev/null 2>&1; do sleep 0.1; done");
  const script = commands.map(patient).join("\n");
  const typed = newcomer.type(`${script}\nstatus=$?; wait %2; echo $? > ../call-ended; exit $status`);
  // The browser opens a page that holds the link, and follows it by itself.
  await page.goto(pathToFileURL(await newcomer.opened()).href);
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  expect(page.url()).toMatch(/^http:\/\/palyra-[a-z0-9]+\.localhost:\d+\//);
  for (const click of clicks) await page.getByRole("main").getByRole("link", { name: click }).or(page.getByRole("main").getByRole("button", { name: click })).click();
  await expect(page.getByText("The gateway recorded your yes")).toBeVisible();
  expect(await typed).toBe(0);
  expect(await readFile(newcomer.at("call-ended"), "utf8"), "the call's exit code").toBe("0\n");
  expect(problems, "warnings of the browser").toEqual([]);
});
