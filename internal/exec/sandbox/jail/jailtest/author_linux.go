package jailtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/author"
)

// Author verifies that git uses the given author inside sandboxes of a runner. No other part of
// the operator's git configuration may be visible. The function workspace creates the
// workspaces of its runs.
func Author(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) {
	t.Setenv("XDG_CONFIG_HOME", "")
	home, chain := Home(t)
	const settings = "[user]\n\tname = Ada \\\"A\\\" Lovelace]\n\temail = ada@example.org\n" +
		"[credential]\n\thelper = canary\n[core]\n\thooksPath = /canary\n[alias]\n\tst = !canary\n"
	WriteFile(t, filepath.Join(home, ".gitconfig"), settings, 0o644)
	who := author.Of(home)
	if want := (command.Author{Name: `Ada "A" Lovelace]`, Email: "ada@example.org"}); who != want {
		t.Fatalf("the author is %+v, want %+v", who, want)
	}
	spec := func(a command.Author, script string) sandbox.Spec {
		s := Shell(t, workspace(t), script)
		s.Workspace, s.Author = sandbox.ReadOnly, a
		return s
	}
	const (
		begin  = "cd && git init -q x && cd x && "
		commit = "git commit -q --allow-empty -m m && git log -1 --format='%an <%ae> %cn <%ce>'"
		named  = `Ada "A" Lovelace] <ada@example.org>`
	)
	t.Run("a commit has the author", func(t *testing.T) {
		if got := Output(t, r, spec(who, begin+commit)); got != named+" "+named+"\n" {
			t.Errorf("git says %q", got)
		}
		// Control: without an author git refuses to commit.
		if report := Run(t, r, spec(command.Author{}, begin+commit)); report.ExitCode == nil || *report.ExitCode == 0 {
			t.Errorf("without an author it ended with %s: %s", Ending(report), report.Stdout.Head)
		}
	})
	t.Run("the repository's own wins", func(t *testing.T) {
		if got := Output(t, r, spec(who, begin+"git config user.name Own && "+commit)); got != "Own <ada@example.org> Own <ada@example.org>\n" {
			t.Errorf("git says %q", got)
		}
	})
	t.Run("nothing else of the operator's is there", func(t *testing.T) {
		const script = "cd / && git config --list; HOME="
		if got := Output(t, r, spec(who, script+home+" git config --list || true")); strings.Contains(got, "canary") || strings.Count(got, "\n") != 4 && strings.Count(got, "\n") != 2 {
			t.Errorf("git has %q", got)
		}
		s := spec(who, script+home+" git config --list") // control: a visible home
		s.Toolchains = []command.Toolchain{{Name: "all", Bins: chain.Bins, Dirs: []string{home}}}
		if got := Output(t, r, s); strings.Count(got, "canary") != 3 {
			t.Errorf("where the home is shown, git has %q", got)
		}
	})
	t.Run("a program cannot change it", func(t *testing.T) {
		if got := Output(t, r, spec(who, "git config --system user.name Eve; cd && git config user.name")); got != who.Name+"\n" {
			t.Errorf("git says %q", got)
		}
		// Control: the program can change its own settings for this run.
		if got := Output(t, r, spec(who, "git config --global user.name Eve; cd && git config user.name")); got != "Eve\n" {
			t.Errorf("of its own, git says %q", got)
		}
		if after := must.Get(os.ReadFile(filepath.Join(home, ".gitconfig")))(t); string(after) != settings {
			t.Errorf("the operator's file became %q", after)
		}
	})
	t.Run("a caller cannot name another file", func(t *testing.T) {
		s := spec(who, "true")
		s.Env = []string{"GIT_CONFIG_SYSTEM=/dev/null"}
		if _, err := r.Run(t.Context(), s); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%v", err)
		}
	})
}
