// Executes the section "The console" of README: from the installed programs to the first decision.
import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { test as base, expect } from "@playwright/test";
import { programs } from "./gateway";

const repository = resolve(import.meta.dirname, "../..");

/** The directory of a new user with the built programs, and the commands run in it. */
class NewUser {
  readonly dir: string;
  readonly #groups: number[] = [];
  private constructor(dir: string) {
    this.dir = dir;
  }

  static async create(): Promise<NewUser> {
    const one = new NewUser(await mkdtemp(join(tmpdir(), "palyra-first.")));
    await mkdir(one.at("home"));
    await mkdir(one.at("src"));
    await mkdir(one.at("path"));
    // A replacement of the desktop's opener that records the address.
    await writeFile(one.at("path/xdg-open"), `#!/bin/sh\nprintf %s "$1" > "${one.at("opened.new")}" && mv "${one.at("opened.new")}" "${one.at("opened")}"\n`);
    await chmod(one.at("path/xdg-open"), 0o755);
    return one;
  }

  at(name: string): string {
    return join(this.dir, name);
  }

  /** Runs a script in a shell; resolves with the exit status of its last foreground command. */
  runScript(script: string): Promise<number> {
    const shell = spawn("bash", ["-c", script], {
      cwd: this.at("src"),
      env: {
        PATH: `${this.at("path")}:${programs}:${process.env.PATH ?? ""}`,
        HOME: this.at("home"),
        LANG: "C.UTF-8",
        XDG_RUNTIME_DIR: this.at("home"),
        // Use free ports.
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

  /** Waits for the address that the desktop's opener received. */
  async openedAddress(): Promise<string> {
    await expect.poll(() => readFile(this.at("opened"), "utf8").catch(() => "")).not.toBe("");
    return readFile(this.at("opened"), "utf8");
  }

  async cleanUp(): Promise<void> {
    // palyrad is not in the process group of the script that started it.
    expect(await this.runScript("palyra down")).toBe(0);
    for (const group of this.#groups) {
      try {
        process.kill(-group, "SIGTERM");
      } catch {
        // The process group has ended.
      }
      // Wait until the process group is gone.
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

const test = base.extend<{ newUser: NewUser }>({
  newUser: async ({}, use) => {
    const newUser = await NewUser.create();
    await use(newUser);
    await newUser.cleanUp();
  },
});

/** Returns the commands of README's section on the console, and its bold labels to click. */
async function readme(): Promise<{ commands: string[]; clicks: string[] }> {
  const text = await readFile(join(repository, "README.md"), "utf8");
  const section = /\n## The console\n([\s\S]*?)\n## /.exec(text)?.[1] ?? "";
  const block = /```sh\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
  return {
    commands: block.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#")),
    clicks: [...section.matchAll(/\*\*(.+?)\*\*/g)].map((found) => found[1] ?? ""),
  };
}

test("README leads from the installed programs to the first decision", async ({ newUser, page }) => {
  const { commands, clicks } = await readme();
  expect(commands.length).toBeGreaterThan(0);
  expect(commands.length, "commands").toBeLessThanOrEqual(4);
  expect(clicks.length).toBeGreaterThan(0);
  expect(clicks.length, "clicks").toBeLessThanOrEqual(6);
  await writeFile(newUser.at("src/README.md"), "# mine\n");

  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  const scriptResult = newUser.runScript(`${commands.join("\n")}\nstatus=$?; wait %1; echo $? > ../call-ended; exit $status`);
  // The opened file contains the link and redirects to it.
  await page.goto(pathToFileURL(await newUser.openedAddress()).href);
  await expect(page.getByRole("heading", { name: "Approvals", level: 1 })).toBeVisible();
  expect(page.url()).toMatch(/^http:\/\/palyra-[a-z0-9]+\.localhost:\d+\//);
  for (const click of clicks) await page.getByRole("main").getByRole("link", { name: click }).or(page.getByRole("main").getByRole("button", { name: click })).click();
  await expect(page.getByText("The gateway recorded your approval")).toBeVisible();
  expect(await scriptResult).toBe(0);
  expect(await readFile(newUser.at("call-ended"), "utf8"), "the call's exit code").toBe("0\n");
  expect(problems, "warnings of the browser").toEqual([]);
});
