package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
)

// TestQuarantineCannotBePrevented: a program cannot prevent the removal of protected paths from
// the workspace, even to another file system.
func TestQuarantineCannotBePrevented(t *testing.T) {
	t.Parallel()
	for _, aside := range []string{t.TempDir(), otherFileSystem(t)} {
		root, outside := t.TempDir(), t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(outside, "canary"), []byte("whole"), 0o600))
		w := must.Get(OpenWorkspace(root))(t)
		g := must.Get(NewGuard(w, sandbox.Spec{}, aside))(t)
		long := strings.Repeat("l", 250) + "/" + strings.Repeat("l", 250)
		for _, name := range []string{"!a/.vscode/x", "c/d/.envrc", "c%d/.envrc", long + "/.mcp.json", "closed/.mcp.json", "z/.envrc", "plain"} {
			full := filepath.Join(root, name)
			must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
			must.Do(t, os.WriteFile(full, []byte("evil"), 0o600))
		}
		for _, err := range []error{
			os.Symlink(outside, filepath.Join(root, "!a/.vscode/link")), unix.Mkfifo(filepath.Join(root, "!a/.vscode/fifo"), 0o600),
			os.Truncate(filepath.Join(root, "!a/.vscode/x"), 1<<40), os.Chmod(filepath.Join(root, "!a/.vscode"), 0o500), os.Chmod(filepath.Join(root, "closed"), 0o100),
		} {
			must.Do(t, err)
		}
		moved, err := g.Quarantine()
		must.Check(t, err)
		if want := []string{"!a/.vscode", "c/d/.envrc", "c%d/.envrc", "closed/.mcp.json", long + "/.mcp.json", "z/.envrc"}; !slices.Equal(moved, want) {
			t.Errorf("moved %q", moved)
		}
		for _, name := range moved {
			if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
				t.Errorf("%s is still there", name)
			}
		}
		kept, err := filepath.Glob(filepath.Join(aside, "run-*", fmt.Sprintf("%d-*.envrc", len(moved)-1)))
		if err != nil || len(kept) != 1 {
			t.Fatalf("kept %v, %v", kept, err)
		}
		if text, err := os.ReadFile(kept[0]); err != nil || string(text) != "evil" {
			t.Errorf("kept %q, %v", text, err)
		}
		if text, err := os.ReadFile(filepath.Join(outside, "canary")); err != nil || string(text) != "whole" {
			t.Errorf("where a link led to is %q, %v", text, err)
		}
		must.Check(t, g.Close())
		must.Check(t, w.Close())
	}
}

// Existing paths stay; a replaced path does not, even if the file system reuses the inode number.
func TestQuarantineKnowsWhatWasThere(t *testing.T) {
	t.Parallel()
	root := realPath(t, t.TempDir())
	at := func(name string) string { return filepath.Join(root, name) }
	check := func(failed ...error) {
		t.Helper()
		for _, err := range failed {
			must.Do(t, err)
		}
	}
	check(os.Symlink("a", at(".envrc")), os.Symlink("a", at(".yarnrc")), os.Symlink("a", at(".npmrc")), os.WriteFile(at(".mcp.json"), nil, 0o600))
	w, err := OpenWorkspace(root)
	check(err)
	defer w.Close()
	g, err := NewGuard(w, sandbox.Spec{}, t.TempDir())
	check(err)
	defer g.Close()
	check(os.Remove(at(".envrc")), os.Symlink("b", at(".envrc")), os.Remove(at(".yarnrc")), os.WriteFile(at(".yarnrc"), nil, 0o600))
	if moved, err := g.Quarantine(); err != nil || !slices.Equal(moved, []string{".envrc", ".yarnrc"}) {
		t.Errorf("moved %q, %v", moved, err)
	}
}

// Protected files are not moved without a quarantine directory.
func TestGuardNeedsAPlace(t *testing.T) {
	t.Parallel()
	w := must.Get(OpenWorkspace(realPath(t, t.TempDir())))(t)
	defer w.Close()
	if g, err := NewGuard(w, sandbox.Spec{}, ""); reason.Of(err) != reason.SandboxUnavailable || g != nil {
		t.Errorf("got %v, %v", g, err)
	}
}

// otherFileSystem returns a directory on a different file system than the temporary directory.
func otherFileSystem(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/dev/shm", "palyra-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
