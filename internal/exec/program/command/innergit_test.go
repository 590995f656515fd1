package command

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
)

// TestObeysRepository: a git command may start a program if it may use a directory not named
// .git as its repository, however it gets there.
func TestObeysRepository(t *testing.T) {
	t.Parallel()
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for _, name := range []string{".git/HEAD", ".git/objects/a", ".git/modules/m/HEAD", ".git/modules/m/objects/a", "web/.git/HEAD", "web/.git/refs/a", "web/src/a", "eg/HEAD", "eg/objects/a", "eg/deep/a", "work/HEAD", "work/commondir", "head/HEAD"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
	}
	must.Do(t, os.Symlink("eg/deep", filepath.Join(root, "link")))
	must.Do(t, os.Symlink("/workspace/eg", filepath.Join(root, "inside")))
	for _, c := range []struct {
		cwd   string
		lines []string
		want  bool
	}{
		// Control: the repository of the workspace and others named .git.
		{".", []string{"git status"}, false},
		{"web/src", []string{"git log -n 1"}, false},
		{".", []string{"git -C web status"}, false},
		{".", []string{"git -C web -C src status"}, false},
		{"web/src", []string{"git -C .. status"}, false},
		{".", []string{"git -C /workspace/web status"}, false},
		{".", []string{"git -C missing status"}, false},
		{".", []string{"git --git-dir=.git push origin main"}, false},
		{".", []string{"git -C .git/modules/m log"}, false},
		{".", []string{"git diff --no-index /dev/null head"}, false},
		{"eg", []string{"ls"}, false},
		{".", []string{"cd web", "git status"}, false},

		{"eg", []string{"git status"}, true},
		{"eg/deep", []string{"git"}, true},
		{".", []string{"git -C eg status"}, true},
		{".", []string{"git -C web -C ../eg status"}, true},
		{".", []string{"git -C ./eg/deep status"}, true},
		{".", []string{"git -C /workspace/eg status"}, true},
		{".", []string{"git -C " + root + "/eg status"}, true},
		{".", []string{"git -C work status"}, true},
		{".", []string{"git -C link status"}, true},
		{".", []string{"git -C link/.. status"}, true},
		{".", []string{"git -C inside status"}, true},
		{".", []string{"git -C /tmp status"}, true},
		{".", []string{"git -C /workspace/.. status"}, true},
		{".", []string{"git push ./eg main"}, true},
		{".", []string{"git push eg main"}, true},
		{".", []string{"git --git-dir=eg log"}, true},
		{".", []string{"git clone file:///workspace/eg b"}, true},
		{".", []string{"cd eg", "git status"}, true},
		{".", []string{"cd web", "cd ../eg", "ls", "git status"}, true},
		{".", []string{"git-status -C eg"}, true},
	} {
		var started []Started
		for _, line := range c.lines {
			argv := words(line)
			started = append(started, Started{Argv: argv, Basename: argv[0]})
		}
		if got := ObeysRepository(root, c.cwd, started...); got != c.want {
			t.Errorf("%q in %s: %t, want %t", c.lines, c.cwd, got, c.want)
		}
	}
	must.Do(t, os.Remove(filepath.Join(root, "eg", "HEAD")))
	if ObeysRepository(root, ".", Started{Argv: []string{"git", "-C", "eg", "status"}, Basename: "git"}) {
		t.Error("a directory without HEAD is taken for a repository")
	}
}
