//go:build linux

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/must"
)

// onlyProgram returns a policy that lets one program run without approval, under a further
// condition.
func onlyProgram(name, and string) string {
	return fmt.Sprintf(`@id("only") @reason("it is harmless") @waives("approval: the workspace is a temporary directory")
permit(principal, action in [Action::"tool.execute/process.run", Action::"tool.execute/shell.run"], resource)
when {
  context.egress.mode != "none" && context has exec &&
  (context.exec.basename == %q || context has shell && context.shell.commands.contains(%[1]q))%s
};
`, name, and)
}

// readsMore is true for any variables, child programs or code of a call.
const readsMore = ` && !(context.exec.env.contains("nothing")) && !(context.exec.starts.contains("nothing")) && [true, false].contains(context.exec.inline_code)`

// innerRows are calls that make a harmless command line run or write something else: through a
// variable (GW2-05), or through an argument that names a command (GW2-06).
func innerRows() []factRow {
	unread := func(name string) string { return onlyProgram(name, "") }
	covers := func(name string) string { return onlyProgram(name, readsMore) }
	const write = "echo " + canary + " > made"
	return []factRow{
		{"GW2-05", "variable under a rule for the program", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			return g.unasked("process.run", argv("git", "rev-parse", canary), `env={"GIT_TRACE":"/workspace/made"}`)
		}},
		{"GW2-05", "variable that a line sets", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			g.withShells()
			return g.unasked("shell.run", "command=GIT_TRACE=/workspace/made git rev-parse "+canary)
		}},
		{"GW2-05", "variable that a line exports", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			g.withShells()
			return g.unasked("shell.run", "command=export GIT_TRACE=/workspace/made; git rev-parse "+canary)
		}},
		{"GW2-05", "variable under a grant for the program", "", covers("git"), func(g *gateway, _ bool) string {
			g.granted("process.run", argv("git", "--version"))
			return g.unasked("process.run", argv("git", "rev-parse", canary), `env={"GIT_TRACE":"/workspace/made"}`)
		}},
		{"GW2-06", "script of sed under a rule for sed", unread("sed"), covers("sed"), func(g *gateway, _ bool) string {
			g.file("notes.txt", "line\n")
			return g.unasked("process.run", argv("sed", "1e "+write, "notes.txt"))
		}},
		{"GW2-06", "script of sed under a grant for sed", "", covers("sed"), func(g *gateway, _ bool) string {
			g.file("notes.txt", "line\n")
			g.granted("process.run", argv("sed", "-n", "1p", "notes.txt"))
			return g.unasked("process.run", argv("sed", "s/line/"+write+"/e", "notes.txt"))
		}},
		{"GW2-06", "action of tar under a rule for tar", unread("tar"), covers("tar"), func(g *gateway, _ bool) string {
			g.file("notes.txt", strings.Repeat("line\n", 10000))
			return g.unasked("process.run", argv("tar", "-cf", "all.tar", "--checkpoint=1", "--checkpoint-action=exec="+write, "notes.txt"))
		}},
		{"GW2-06", "alias of git under a rule for git", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			return g.unasked("process.run", argv("git", "-c", "alias.look=!"+write, "look"))
		}},
		{"GW2-06", "command of find that a rule forbids", covers("find") + `@id("no-cp") forbid(principal, action == Action::"tool.execute/process.run", resource) when { context has exec && context.exec.starts.contains("cp") };`,
			covers("find"), func(g *gateway, _ bool) string {
				g.file("notes.txt", canary)
				return g.unasked("process.run", argv("find", "notes.txt", "-exec", "/bin/cp", "{}", "made", ";"))
			}},
	}
}

// argumentRows are calls whose program-specific argument names another program to run (GW2-71),
// makes git use another repository of the workspace (GW2-72), or gives code to an interpreter
// (GW2-73).
func argumentRows() []factRow {
	unread := func(name string) string { return onlyProgram(name, "") }
	covers := func(name string) string { return onlyProgram(name, readsMore) }
	evil := func(g *gateway) {
		g.file("notes.txt", "line\n")
		g.file("evil", "#!/bin/sh\necho "+canary+" >/workspace/made\ncat\n")
		must.Do(g.T, os.Chmod(filepath.Join(g.Workspace, "evil"), 0o755))
	}
	repository := func(g *gateway) {
		evil(g)
		g.file("eg/HEAD", "ref: refs/heads/main\n")
		g.file("eg/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = /workspace/evil\n")
		g.file("eg/objects/a", "")
		g.file("eg/refs/heads/a", "")
	}
	return []factRow{
		{"GW2-71", "program of install under a rule for install", unread("install"), covers("install"), func(g *gateway, _ bool) string {
			evil(g)
			return g.unasked("process.run", argv("install", "-s", "--strip-program=./evil", "notes.txt", "copy"))
		}},
		{"GW2-71", "beginning of an option under a grant for install", "", covers("install"), func(g *gateway, _ bool) string {
			evil(g)
			g.granted("process.run", argv("install", "--version"))
			return g.unasked("process.run", argv("install", "-s", "--strip-p=./evil", "notes.txt", "copy"))
		}},
		{"GW2-71", "makefile on standard input under a rule for make", unread("make"), covers("make"), func(g *gateway, _ bool) string {
			evil(g)
			return g.unasked("process.run", argv("make", "all", "-f", "-"), "stdin=all:\n\t./evil </dev/null\n")
		}},
		{"GW2-71", "beginning of a subcommand under a rule for npm", unread("npm-cli.js"), covers("npm-cli.js"), func(g *gateway, _ bool) string {
			evil(g)
			return g.unasked("process.run", argv("npm", "exe", "--offline", "-c", "./evil </dev/null"))
		}},
		{"GW2-71", "test of zip under a rule for zip", unread("zip"), covers("zip"), func(g *gateway, _ bool) string {
			evil(g)
			return g.unasked("process.run", argv("zip", "-T", "out.zip", "notes.txt", "-TT./evil"))
		}},
		{"GW2-72", "directory of git under a rule for git", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			repository(g)
			return g.unasked("process.run", argv("git", "--git-dir=eg", "status"))
		}},
		{"GW2-72", "directory that git goes to under a rule for git", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			repository(g)
			return g.unasked("process.run", argv("git", "-C", "eg", "status"))
		}},
		{"GW2-72", "working directory under a grant for git", "", covers("git"), func(g *gateway, _ bool) string {
			repository(g)
			g.granted("process.run", argv("git", "--version"))
			return g.unasked("process.run", argv("git", "status"), "cwd=eg")
		}},
		{"GW2-72", "line for a shell under a rule for git", unread("git"), covers("git"), func(g *gateway, _ bool) string {
			g.withShells()
			repository(g)
			return g.unasked("shell.run", "command=git -C eg status")
		}},
		{"GW2-73", "editor of Debian's alternatives under a rule for it", unread("vim.basic"), covers("vim.basic"), func(g *gateway, _ bool) string {
			g.withShells()
			evil(g)
			return g.unasked("process.run", argv("view", "-es", "-c", "!./evil </dev/null", "-c", "qa!"))
		}},
		{"GW2-73", "program of awk under a rule for awk", unread("mawk"), covers("mawk"), func(g *gateway, _ bool) string {
			g.withShells()
			evil(g)
			return g.unasked("process.run", argv("awk", `BEGIN { system("./evil </dev/null") }`))
		}},
	}
}

func argv(words ...string) string { return "argv=" + list(words) }

// unasked makes a call and returns the content of the file made. An approval request is denied.
func (g *gateway) unasked(args ...string) string {
	g.T.Helper()
	call := g.begin(append([]string{"call"}, args...)...)
	if a, asked := call.Asked(); asked {
		g.answer(a, "--deny", "--reason", "it does more than it seems to")
	}
	r := call.wait()
	return g.Read("made") + strings.ReplaceAll(r.Err, canary, "the canary") // the request shows it
}

// withShells restarts the gateway so that policy decides on shells.
func (g *gateway) withShells() {
	g.T.Helper()
	g.restart(func(config string) string { return strings.Replace(config, "allow_interpreters = true\n", "", 1) })
}

// granted creates a grant for any call of the program.
func (g *gateway) granted(args ...string) {
	g.T.Helper()
	call := g.begin(append([]string{"call"}, args...)...)
	if a, asked := call.Asked(); asked {
		g.answer(a, "--allow", "timeboxed", "--for", "1h", "--match", "subject")
	}
	call.wait()
}
