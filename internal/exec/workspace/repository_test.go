package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/internal/core/reason"
)

// bareTrick are the files that turn a directory into a repository with an effective
// configuration, although no file is below a directory named .git.
var bareTrick = []Change{
	{Path: "HEAD", Content: []byte("ref: refs/heads/main\n")},
	{Path: "objects/k", Content: []byte("k")},
	{Path: "refs/k", Content: []byte("k")},
	{Path: "config", Content: []byte("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch owned; false\n")},
}

func TestBareRepositoryTrick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := apply(w, bareTrick...); reason.Of(err) != reason.ProtectedPath {
		t.Errorf("all at once: %v", err)
	}
	for _, name := range []string{"HEAD", "a/b/HEAD", "head", "a/Head", ".git/HEAD"} {
		if _, err := apply(w, Change{Path: name, Content: []byte("broken")}); reason.Of(err) != reason.ProtectedPath {
			t.Errorf("%s is written: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(w.inside); len(entries) != 0 {
		t.Errorf("something was written: %v", entries)
	}
	t.Run("negative control", func(t *testing.T) {
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("no git here")
		}
		dir := t.TempDir()
		for _, c := range bareTrick {
			write(t, filepath.Join(dir, c.Path), string(c.Content))
		}
		cmd := exec.Command("git", "status")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, _ := cmd.CombinedOutput()
		if _, err := os.Stat(filepath.Join(dir, "owned")); err != nil {
			t.Skipf("this git does not fall for it: %s", out)
		}
	})
}

// TestRepositoryControlFiles: the configuration and hooks of an existing bare repository are
// protected under any name.
func TestRepositoryControlFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"bare.x/HEAD", "bare.x/refs/heads/.keep", "linked/HEAD", "linked/commondir", "half/HEAD", "plain/refs/x", "plain/objects/x"} {
		write(t, filepath.Join(w.inside, name), "x")
	}
	for _, names := range [][]string{
		{"bare.x/config"}, {"bare.x/Config"}, {"bare.x/config.worktree"}, {"bare.x/hooks/pre-commit"}, {"bare.x/commondir"}, {"linked/config"},
		{"half/objects/k"}, {"half/refs/k"}, {"half/commondir"}, {"half/Objects/k", "half/config"}, {"ok", "bare.x/hooks/deep/x"},
	} {
		var changes []Change
		for _, name := range names {
			changes = append(changes, Change{Path: name, Content: []byte("x")})
		}
		if _, err := apply(w, changes...); reason.Of(err) != reason.ProtectedPath {
			t.Errorf("%q: %v", names, err)
		}
		if err := w.root.Judge(changes); reason.Of(err) != reason.ProtectedPath {
			t.Errorf("judging %q: %v", names, err)
		}
	}
	// Negative control: without HEAD, the same names are ordinary files.
	for _, name := range []string{"config", "hooks/pre-commit", "plain/config", "plain/hooks/x", "plain/refs/y", "bare.x/refs/heads/main", "bare.x/description", "half/config", "objects/k", "bare.x/sub/config"} {
		if _, err := apply(w, Change{Path: name, Content: []byte("x")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
