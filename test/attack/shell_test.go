//go:build linux

package attack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// shellRow is a line that creates the file evil, and that tries to bypass a rule.
type shellRow struct {
	id, variant, line string
	// shell is sh if the line is not a bash line.
	shell string
}

// shellRows are GW-08, lines that do more than a rule that allows ls appears to permit, and
// GW-09, lines that run touch despite a rule that forbids it.
func shellRows() []shellRow {
	const allowed, forbidden = "GW-08", "GW-09"
	return []shellRow{
		{id: allowed, variant: "another command of the list", line: "ls; touch evil"},
		{id: allowed, variant: "a substitution", line: "ls $(touch evil)"},
		{id: allowed, variant: "backquotes in double quotes", line: "ls \"`touch evil`\""},
		{id: allowed, variant: "a redirect", line: "ls > evil"},
		{id: allowed, variant: "a redirect alone", line: "> evil"},
		{id: allowed, variant: "a redirect after a closed descriptor", line: "ls 2>&1 >&evil"},
		{id: allowed, variant: "an assignment of PATH before a command", line: "PATH=/workspace:$PATH ls"},
		{id: allowed, variant: "an assignment of PATH", line: "PATH=/workspace; ls"},
		{id: allowed, variant: "a loop that assigns PATH", line: "for PATH in /workspace; do ls; done"},
		{id: allowed, variant: "printf that assigns PATH", line: "printf -v PATH /workspace; ls"},
		{id: allowed, variant: "read that assigns PATH", line: "read PATH < path; ls"},
		{id: allowed, variant: "a function", line: "ls() { touch evil; }; ls"},
		{id: allowed, variant: "an alias", line: "alias ls='touch evil'\nls", shell: "sh"},
		{id: allowed, variant: "a hashed name", line: "hash -p /workspace/ls ls; ls"},
		{id: allowed, variant: "eval", line: "eval 'touch evil'"},
		{id: allowed, variant: "source", line: ". ./evil.sh"},
		{id: allowed, variant: "a trap", line: "trap 'touch evil' EXIT; ls"},
		{id: allowed, variant: "another shell", line: "sh -c 'touch evil'"},
		{id: allowed, variant: "a pipe to a shell", line: "echo touch evil | sh"},
		{id: allowed, variant: "a program of the workspace", line: "./ls"},
		{id: allowed, variant: "a program of the workspace by its path", line: "/workspace/ls"},
		{id: allowed, variant: "the index of an array in test", line: "test -v 'a[$(touch evil)]'"},
		{id: allowed, variant: "arithmetic in a test", line: "[[ 'a[$(touch evil)]' -eq 0 ]]"},
		{id: allowed, variant: "a name that is expanded", line: "A=touch; $A evil"},
		{id: allowed, variant: "braces", line: "{touch,evil}"},
		{id: allowed, variant: "a here-document", line: "ls <<E\n$(touch evil)\nE"},
		{id: allowed, variant: "a process substitution", line: "ls <(touch evil)"},
		{id: allowed, variant: "what the parser reads otherwise", line: ">&-touch evil"},

		{id: forbidden, variant: "behind another command", line: "ls && touch evil"},
		{id: forbidden, variant: "by its path", line: "/usr/bin/touch evil"},
		{id: forbidden, variant: "with a backslash", line: "t\\ouch evil"},
		{id: forbidden, variant: "in quotes", line: "'to'\"uch\" evil"},
		{id: forbidden, variant: "over two lines", line: "to\\\nuch evil"},
		{id: forbidden, variant: "in a subshell", line: "(cd . && (touch evil))"},
		{id: forbidden, variant: "in a condition", line: "if ! false; then touch evil; fi"},
		{id: forbidden, variant: "in a function", line: "f() { touch evil; }; f"},
		{id: forbidden, variant: "in a substitution within an expansion", line: "echo ${A:-$(touch evil)}"},
		{id: forbidden, variant: "in arithmetic", line: "echo $((1 + $(touch evil) 1))"},
		{id: forbidden, variant: "in a here-document", line: "cat <<E\n`touch evil`\nE"},
		{id: forbidden, variant: "by env", line: "env A=b touch evil"},
		{id: forbidden, variant: "by nice and env", line: "nice -n 1 env -i /usr/bin/touch evil"},
		{id: forbidden, variant: "by xargs", line: "echo evil | xargs touch"},
		{id: forbidden, variant: "by find", line: "find . -maxdepth 0 -exec touch evil ';'"},
		{id: forbidden, variant: "by command", line: "command -p touch evil"},
		{id: forbidden, variant: "by exec", line: "exec touch evil"},
		{id: forbidden, variant: "by eval", line: "eval 't''ouch evil'"},
		{id: forbidden, variant: "by a trap", line: "trap 'touch evil' EXIT"},
		{id: forbidden, variant: "by another shell", line: "bash -c 'sh -c \"touch evil\"'"},
		{id: forbidden, variant: "after a prefix", line: "A=b touch evil"},
		{id: forbidden, variant: "what the parser reads otherwise", line: ">&-touch evil"},
		{id: forbidden, variant: "in a line that cannot be read", line: "touch evil\n("},
	}
}

const (
	shellAllowed = `@id("lines")
@reason("any line runs in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"tool.execute/shell.run", resource)
when { context.egress.mode != "none" }
unless { context has exec && context.exec.env.contains("nothing") };
`
	shellOnlyLs = `@id("only-ls")
forbid(principal, action == Action::"tool.execute/shell.run", resource)
unless { context has shell && ["ls", "echo", "test", "printf", "[["].containsAll(context.shell.commands) };
`
	shellNoTouch = `@id("no-touch")
forbid(principal, action == Action::"tool.execute/shell.run", resource)
when { context has shell && context.shell.commands.contains("touch") };
`
)

// TestLinesForAShell: no shell line bypasses a rule about its commands. The control has no such
// rule.
func TestLinesForAShell(t *testing.T) {
	t.Parallel()
	withRule := map[string]*gateway{"GW-08": shellGateway(t, shellOnlyLs), "GW-09": shellGateway(t, shellNoTouch)}
	without := shellGateway(t, "")
	for _, g := range withRule {
		if _, text := g.shellLine(shellRow{line: "ls -la"}); !strings.Contains(text, "evil.sh") {
			t.Fatalf("an ordinary line does not run: %s", text)
		}
	}
	for _, r := range shellRows() {
		t.Run(strings.ReplaceAll(r.id+" "+r.variant, " ", "_"), func(t *testing.T) {
			attack, said := withRule[r.id].shellLine(r)
			// A shell does not wait for a process substitution, which ends with the sandbox. On a busy
			// machine, the control may need more than one call.
			control, told := without.shellLine(r)
			for try := 1; try < 20 && !control; try++ {
				control, told = without.shellLine(r)
			}
			record(t, r.id+" "+r.variant, attack, control, said+"; control: "+told)
		})
	}
}

// shellGateway returns a gateway that lets lines run unless the rule forbids them. The
// workspace has its own ls, and a script.
func shellGateway(t *testing.T, rule string) *gateway {
	t.Helper()
	g := newGateway(t, shellAllowed+rule)
	g.write(g.Config, strings.Replace(read(t, g.Config), "allow_interpreters = true\n", "", 1))
	g.file("evil.sh", "touch /workspace/evil\n")
	g.file("path", "/workspace\n")
	g.file("ls", "#!/bin/sh\nPATH=/usr/bin:/bin\ntouch /workspace/evil\n")
	must.Do(t, os.Chmod(filepath.Join(g.Workspace, "ls"), 0o755))
	g.mustStart()
	return g
}

// shellLine reports whether a line created the file evil, and returns the call's output.
func (g *gateway) shellLine(r shellRow) (evil bool, text string) {
	g.T.Helper()
	file := filepath.Join(g.Workspace, "evil")
	_ = os.Remove(file)
	args := []string{"call", "shell.run", "command=" + r.line}
	if r.shell != "" {
		args = append(args, "shell="+r.shell)
	}
	result := g.palyra(args...)
	return exists(file), result.Out + result.Err
}
