//go:build unix

package builtin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

func TestShellRun(t *testing.T) {
	t.Parallel()
	b, r, bin := processBench(t, nil)
	b.write("src/f.txt", "x")
	b.write("src/in.txt", "y")
	in := object{"command": "git log f.txt | tool < in.txt", "cwd": "src", "env": object{"B": "2", "A": "1"}, "timeout_ms": 5000, "read_only": true}
	plan := must.Get(b.plan("shell.run", in))(t)
	argv := []string{"bash", "--noprofile", "--norc", "-c", "--", "git log f.txt | tool < in.txt"}
	bind := plan.Binding
	if !slices.Equal(bind.Argv, argv) || bind.Executable.Path != filepath.Join(bin, "bash") || !strings.HasPrefix(bind.Executable.SHA256, "sha256:") ||
		bind.Cwd != "default:src" || !slices.Equal(bind.Environment, []string{"A=1", "B=2"}) || !strings.HasPrefix(bind.Parsed, "sha256:") {
		t.Errorf("binding %+v", bind)
	}
	var operands []string
	for _, o := range bind.Operands {
		operands = append(operands, o.Path)
	}
	if !slices.Equal(operands, []string{"src/f.txt", "src/in.txt"}) {
		t.Errorf("operands %q", operands)
	}
	s := plan.Facts.Shell
	if s == nil || !s.Known || s.Claimed || s.Dialect != "bash" || !slices.Equal(s.Commands, []string{"git", "tool"}) || !slices.Equal(s.Subcommands, []string{"git log", "tool"}) || !slices.Equal(s.Reads, []string{"in.txt"}) {
		t.Errorf("facts %+v", s)
	}
	if e := plan.Facts.Exec; !e.IsShell || !e.InlineCode || e.Basename != "bash" {
		t.Errorf("the shell is %+v", e)
	}
	if plan.Subject != "shell.run:"+filepath.Join(bin, "bash")+"@default" || plan.ExactOnly == "" || plan.Facts.Risk != riskProcess+riskInterpreter ||
		!strings.HasPrefix(plan.Preview.Summary, "bash 'git log f.txt | tool < in.txt' in default:src") {
		t.Errorf("plan %+v", plan)
	}
	if report, _ := b.call(t.Context(), "shell.run", in); report.Outcome != tool.Succeeded || !slices.Equal(r.specs[0].Argv, argv) || r.specs[0].Executable != bind.Executable {
		t.Errorf("%+v, %+v", report, r.specs)
	}
	for _, pair := range command.Environment(bind.Executable.Path, r.specs[0].Env, nil) {
		if name, _, _ := strings.Cut(pair, "="); name == "ENV" || name == "BASH_ENV" {
			t.Errorf("the shell gets %s", pair)
		}
	}
	if other := must.Get(b.plan("process.run", object{"argv": []string{"git"}}))(t); other.Facts.Shell != nil || other.Binding.Parsed != "" {
		t.Errorf("process.run has a line: %+v", other.Facts.Shell)
	}
}

// TestShellIsRead: a line is parsed in the language of the resolved shell. Its programs are the
// ones that this shell finds.
func TestShellIsRead(t *testing.T) {
	t.Parallel()
	b, _, bin := processBench(t, func(c *Config) {
		c.Process.Toolchains = func() []command.Toolchain { return nil }
	})
	b.write("tool", "#!/bin/sh\n")
	must.Do(t, os.Chmod(filepath.Join(b.dir, "tool"), 0o755))
	link(t, filepath.Join(b.dir, "tool"), filepath.Join(bin, "linked"))
	for _, c := range []struct {
		in      object
		dialect string
		known   bool
		origins []string
	}{
		{object{"command": "git status"}, "bash", true, []string{"other"}},
		{object{"command": "git status", "shell": "sh"}, "posix", true, []string{"other"}},
		{object{"command": "[[ -f a ]] && echo b"}, "bash", true, []string{"shell"}},
		{object{"command": "[[ -f a ]] && echo b", "shell": "sh"}, "posix", false, []string{"shell", "unknown"}},
		{object{"command": "./tool"}, "bash", true, []string{"workspace"}},
		{object{"command": "/workspace/tool"}, "bash", true, []string{"workspace"}},
		{object{"command": filepath.Join(b.dir, "tool")}, "bash", true, []string{"workspace"}},
		{object{"command": "linked"}, "bash", true, []string{"workspace"}},
		{object{"command": "nowhere"}, "bash", true, []string{"unknown"}},
		{object{"command": "git $A"}, "bash", false, []string{"other", "unknown"}},
		{object{"command": "-x"}, "bash", true, []string{"unknown"}},
	} {
		plan := must.Get(b.plan("shell.run", c.in))(t)
		if s := plan.Facts.Shell; s.Dialect != c.dialect || s.Known != c.known || !slices.Equal(s.Origins, c.origins) {
			t.Errorf("%v: %+v", c.in, s)
		}
	}
	for line, note := range map[string]string{
		"git $A": "known only when it runs", "eval x": "runs text as code", "git (": "cannot parse this line", "cd a && git b": "changes its directory", "git > a/b": "write to a/b",
	} {
		plan := must.Get(b.plan("shell.run", object{"command": line}))(t)
		if notes := strings.Join(plan.Preview.Notes, "\n"); !strings.Contains(notes, note) {
			t.Errorf("%q: the notes are\n%s", line, notes)
		}
	}
}

// TestShellDigests: the digest of a call covers the parse result and the text.
func TestShellDigests(t *testing.T) {
	t.Parallel()
	b, _, _ := processBench(t, nil)
	digests := map[string]string{}
	for _, in := range []object{
		{"command": "git a"}, {"command": "git  a"}, {"command": "git 'a'"}, {"command": "git b"}, {"command": "git a", "shell": "sh"}, {"command": "git a", "cwd": "."}, {"command": "git ("},
	} {
		plan := must.Get(b.plan("shell.run", in))(t)
		digest := must.Get(plan.Binding.Digest())(t)
		if in["cwd"] == nil && digests[digest] != "" {
			t.Errorf("%v has the digest of %s", in, digests[digest])
		}
		digests[digest] = in["command"].(string)
	}
	plan := must.Get(b.plan("shell.run", object{"command": "git a"}))(t)
	was := must.Get(plan.Binding.Digest())(t)
	plan.Binding.Parsed = must.Get(b.plan("shell.run", object{"command": "git b"}))(t).Binding.Parsed
	if is := must.Get(plan.Binding.Digest())(t); is == was {
		t.Error("what was read is not part of the call")
	}
	other := must.Get(b.plan("shell.run", object{"command": "git a"}))(t)
	other.Facts.Shell.Commands = []string{"git", "rm"}
	if policy.BoundDigest(&other) == policy.BoundDigest(&plan) {
		t.Error("the commands of a line are not bound")
	}
}

// TestShellRefused: invalid lines are refused before an approval.
func TestShellRefused(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	line := object{"command": "git status"}
	for name, row := range map[string]struct {
		change func(*Config)
		in     object
		want   reason.Code
	}{
		"empty":                  {nil, object{"command": " \n"}, reason.InvalidInput},
		"too long":               {nil, object{"command": strings.Repeat("é", 40000)}, reason.InvalidInput},
		"steered":                {nil, object{"command": "git", "env": object{"BASH_ENV": "x"}}, reason.InvalidInput},
		"steered by ENV":         {nil, object{"command": "git", "env": object{"ENV": "x"}}, reason.InvalidInput},
		"a function":             {nil, object{"command": "git", "env": object{"BASH_FUNC_git": "() { rm x; }"}}, reason.InvalidInput},
		"disabled":               {func(c *Config) { c.Process.Enabled = false }, line, reason.SandboxDisabled},
		"no interpreters":        {func(c *Config) { c.Process.AllowInterpreters = &no }, line, reason.ExecutableDenied},
		"interpreters of files":  {func(c *Config) { c.Process.AllowInterpreters = &yes }, line, reason.ExecutableDenied},
		"Tier B":                 {func(c *Config) { c.Sandbox.Tier = sandbox.TierB }, line, reason.ExecutableDenied},
		"not on the list":        {func(c *Config) { c.Process.AllowedExecutables = []string{"git"} }, line, reason.ExecutableDenied},
		"no such directory":      {nil, object{"command": "git", "cwd": "none"}, reason.FileNotFound},
		"no sandbox":             {func(c *Config) { c.Sandbox.Available = false }, line, reason.SandboxUnavailable},
		"no such shell":          {func(c *Config) { c.Process.SearchPath = []string{"/nonexistent"} }, line, reason.SpawnFailed},
		"a shell that is not sh": {func(c *Config) { other(t, c) }, object{"command": "git", "shell": "sh"}, reason.ExecutableDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b, r, _ := processBench(t, row.change)
			b.refused("shell.run", row.in, row.want)
			if len(r.specs) > 0 {
				t.Error("it ran")
			}
		})
	}
	b, _, _ := processBench(t, nil)
	must.Get(b.plan("shell.run", line))(t) // control
}

// other replaces sh with zsh.
func other(t *testing.T, c *Config) {
	t.Helper()
	bin := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(bin, "zsh"), []byte("\x7fELFzsh"), 0o755))
	link(t, "zsh", filepath.Join(bin, "sh"))
	c.Process.SearchPath = []string{bin}
}

// TestInlineCodeStaysRefused: shell.run does not affect the restrictions of process.run.
func TestInlineCodeStaysRefused(t *testing.T) {
	t.Parallel()
	yes := true
	b, _, _ := processBench(t, func(c *Config) { c.Process.AllowInterpreters = &yes })
	b.refused("process.run", object{"argv": []string{"bash", "-c", "git status"}}, reason.ExecutableDenied)
	b.refused("process.run", object{"argv": []string{"python3.12", "-c", "1"}}, reason.InlineCode)
	b, _, _ = processBench(t, nil)
	plan := must.Get(b.plan("process.run", object{"argv": []string{"bash", "-c", "git status"}}))(t)
	if e := plan.Facts.Exec; !e.InlineCode || !e.IsShell || plan.Facts.Shell != nil {
		t.Errorf("%+v", plan.Facts)
	}
}

// TestShellUnderLaptop evaluates lines under the real policies, with the facts of real plans.
func TestShellUnderLaptop(t *testing.T) {
	t.Parallel()
	b, _, _ := processBench(t, func(c *Config) { c.Process.SearchPath = nil })
	judged := b.under(laptop(t))
	if _, err := command.ResolveExecutable("ls", command.SearchPath()); err != nil {
		t.Skip("this machine has no ls")
	}
	if plan, err := b.plan("shell.run", object{"command": "ls", "shell": "sh"}); err != nil || !slices.Equal(plan.Facts.Shell.Origins, []string{"system"}) {
		t.Skipf("the shell or the ls of this machine is not of the system: %v", err)
	}
	for line, want := range map[string]policy.Effect{
		"ls -la": policy.Allow, "cd . && ls a; pwd": policy.Allow, "ls 2>/dev/null || echo none": policy.Allow, "if [ -f a ]; then ls a; fi": policy.Allow,
		"ls > a": policy.Ask, "ls $A": policy.Ask, "ls *": policy.Ask, "cat .env": policy.Ask, "ls; rm a": policy.Ask, "ls $(rm a)": policy.Ask, "A=b ls": policy.Ask, "./ls": policy.Ask,
		"env ls": policy.Ask, "sh -c ls": policy.Ask, "eval ls": policy.Ask, "ls() { rm a; }; ls": policy.Ask, "alias ls='rm a'": policy.Ask, "ls | sh": policy.Ask, "ls (": policy.Ask, ". ls": policy.Ask,
	} {
		if got := judged.verdict("shell.run", object{"command": line, "shell": "sh"}); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}
