package bubblewrap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
	"palyra/internal/exec/workspace/overlay"
)

// TestWorktrees: git inside works in a linked worktree that git outside created below the
// workspace, and vice versa. Control: a sandbox without the workspace's path on the machine, in
// which git does not find the repository.
func TestWorktrees(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	jailtest.WriteFile(t, filepath.Join(root, "a.txt"), "one\n", 0o644)
	git("init", "-q")
	git("add", "a.txt")
	git("commit", "-q", "-m", "first")
	git("worktree", "add", "-q", ".claude/worktrees/out")

	r := newTestRunner(t)
	history := overlay.History{Dir: filepath.Join(jailtest.Dir(t), "undo")}
	inside := func(script string, hostPath bool) sandbox.Report {
		t.Helper()
		s := copied(jailtest.Shell(t, root, "set -e; export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'; "+script))
		s.Author, s.HostPath = command.Author{Name: "t", Email: "t@example.org"}, hostPath
		return jailtest.Run(t, r, s)
	}
	commit := func(id, script string) {
		t.Helper()
		report := inside(script, true)
		if *report.ExitCode != 0 {
			t.Fatalf("%s: %s%s", script, report.Stdout.Head, report.Stderr.Head)
		}
		set := must.Get(report.Layer.Changes(t.Context()))(t)
		applied := must.Get(report.Layer.Commit(t.Context(), set, overlay.Options{History: history, ID: id, CallID: id, Principal: "agent:a", At: time.Now()}))(t)
		must.Check(t, applied.Left)
	}
	if report := inside("git -C .claude/worktrees/out log", false); *report.ExitCode == 0 {
		t.Errorf("the control finds the repository: %s", report.Stdout.Head)
	}
	commit("out", "cd .claude/worktrees/out; echo two >>a.txt; git commit -qam second; git status --short; git worktree prune")
	if got := git("-C", ".claude/worktrees/out", "log", "--format=%s"); got != "second\nfirst\n" {
		t.Errorf("git outside, after a commit inside: %s", got)
	}
	commit("add", "git worktree add -q .claude/worktrees/in; mkdir sub; cd sub; git worktree add -q ../.worktrees/more")
	for _, name := range []string{".claude/worktrees/in", ".worktrees/more"} {
		if got := git("-C", name, "log", "--format=%s") + git("-C", name, "status", "--short"); got != "first\n" {
			t.Errorf("git outside, in %s: %s", name, got)
		}
		commit(filepath.Base(name), "cd "+name+"; echo x >x; git add x; git commit -qm third; git worktree prune")
	}
	list := git("worktree", "list", "--porcelain")
	for _, name := range []string{"", "/.claude/worktrees/out", "/.claude/worktrees/in", "/.worktrees/more"} {
		if !strings.Contains(list, "worktree "+root+name+"\n") {
			t.Errorf("git outside does not list %s: %s", name, list)
		}
	}
	if strings.Contains(list, "prunable") || strings.Contains(list, command.WorkspaceMount+"/") {
		t.Errorf("git outside lists %s", list)
	}
	git("worktree", "remove", ".worktrees/more")
}

// TestHostPath: if a call needs it, the workspace's path on the machine leads to the workspace
// inside. The path never replaces a directory of the sandbox.
func TestHostPath(t *testing.T) {
	t.Parallel()
	l := layout{toolchains: []place{{target: "/home/u/.nvm"}, {target: "/srv/project/.git"}}}
	for name, want := range map[string]bool{
		"/home/u/project": true, "/srv/feature": true, "/tmp/x": true, "/code": true, "/var/lib/x": true, "/run/user/1/x": true, "/opt/w": true, "/usr2/w": true,
		"/usr/src": false, "/usr": false, "/etc/x": false, "/home": false, "/home/u": false, "/home/tool": false, "/home/tool/x": false, "/home/u/.nvm": false,
		"/home/u/.nvm/x": false, "/srv": false, "/srv/project": false, "/tmp": false, "/var": false, "/var/tmp/x": false, "/workspace": false, "/workspace/x": false,
		"/cache": false, "/cache/go/x": false, "/proc/1": false, "/dev/shm/x": false, "/run": false, "/lib64/x": false,
	} {
		if got := linkable(name, l); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "a"), "here\n", 0o644)
	jailtest.WriteFile(t, filepath.Join(filepath.Dir(root), "beside"), "outside\n", 0o644)
	r := newTestRunner(t)
	s := copied(jailtest.Shell(t, root, "cat '"+root+"/a'; ls '"+filepath.Dir(root)+"'; echo changed >'"+root+"/a'"))
	if report := jailtest.Run(t, r, s); strings.Contains(string(report.Stdout.Head), "here") {
		t.Errorf("the control: %s", report.Stdout.Head)
	}
	s.HostPath = true
	report := jailtest.Run(t, r, s)
	if out := string(report.Stdout.Head); out != "here\nwork\n" {
		t.Errorf("stdout %q, stderr %s", out, report.Stderr.Head)
	}
	if changes := changesOf(t, report); len(changes) != 1 || changes[0] != "modified a" || read(t, filepath.Join(root, "a")) != "here\n" {
		t.Errorf("the write went elsewhere: %q", changes)
	}
}
