package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
)

// TestWorktree: a linked worktree of git belongs to the workspace of its repository, at any
// path. Controls: directories with a one-sided claim, and worktrees of repositories outside
// workspaces.
func TestWorktree(t *testing.T) {
	t.Parallel()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	at := func(name string) string { return filepath.Join(base, name) }
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	for _, dir := range []string{"all", "all/project", "strange", "state"} {
		must.Do(t, os.Mkdir(at(dir), 0o755))
	}
	for _, dir := range []string{"all/project", "strange"} {
		git(at(dir), "init", "-q")
		git(at(dir), "commit", "-q", "--allow-empty", "-m", "one")
	}
	git(at("all/project"), "worktree", "add", "-q", at("beside"))
	git(at("all/project"), "worktree", "add", "-q", at("moved-from"))
	git(at("strange"), "worktree", "add", "-q", at("of-strange"))
	must.Do(t, os.Rename(at("moved-from"), at("moved")))
	write(t, at("pretends/.git"), "gitdir: "+at("all/project/.git/worktrees/beside")+"\n")
	write(t, at("nowhere/.git"), "gitdir: /nothing\n")
	write(t, at("beside/sub/nested/.git/HEAD"), "ref: x\n")
	write(t, at("relative/.git"), "gitdir: ../all/project/.git/worktrees/relative\n")
	write(t, at("all/project/.git/worktrees/relative/gitdir"), at("relative/.git")+"\n")
	must.Do(t, os.Symlink(at("beside/.git"), at("pretends/link")))
	set := must.Get(NewSet([]Declaration{{Name: "default", Path: at("all")}}, stateDir(at("state"))))(t)
	for name, want := range map[string]string{
		"beside/src/main.go": "project/src/main.go", "beside": "project", "relative/a": "project/a",
		"of-strange/a": "", "moved/a": "", "pretends/a": "", "nowhere/a": "", "beside/sub/nested/a": "", "strange/a": "", "elsewhere/a": "",
	} {
		workspace, rel := set.Worktree(at(name))
		if rel != want || (workspace == "default") != (want != "") {
			t.Errorf("%s is %q in %q, want %q", name, rel, workspace, want)
		}
	}
}

// TestHasWorktrees: git reads paths of this machine if it starts in a worktree, or in a
// repository with worktrees. Controls: repositories without worktrees, and files that git does
// not follow.
func TestHasWorktrees(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, dir := range []string{"has/.git/worktrees/w", "has/sub/deep", "plain/.git", "has/nested/.git", "none"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	write(t, filepath.Join(root, "linked/.git"), "gitdir: "+root+"/has/.git/worktrees/w\n")
	write(t, filepath.Join(root, "relative/.git"), "gitdir: ../has/.git/worktrees/w\n")
	write(t, filepath.Join(root, "submodule/.git"), "gitdir: ../.git/modules/lib\n")
	write(t, filepath.Join(root, "has/nonsense/.git"), "worktrees/w\n")
	write(t, filepath.Join(root, "file/.git/worktrees"), "")
	for cwd, want := range map[string]bool{
		"has": true, "has/sub/deep": true, "linked": true, "relative": true,
		"": false, ".": false, "plain": false, "has/nested": false, "none": false, "submodule": false, "has/nonsense": false, "file": false,
	} {
		if got := HasWorktrees(root, cwd); got != want {
			t.Errorf("%q: %v", cwd, got)
		}
	}
	if !HasWorktrees(filepath.Join(root, "has"), "") || HasWorktrees(filepath.Join(root, "has/sub"), "deep") {
		t.Error("a repository above the workspace counts, or the one at its root does not")
	}
}
