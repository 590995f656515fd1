//go:build unix

package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestLinkIsPrivateToTheUser: the link is in a private file of the user, which is removed, and in
// nothing that other users can read.
func TestLinkIsPrivateToTheUser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run", "palyra")
	link := "http://palyra-a.localhost:7145/login#token=T0KEN"
	p := must.Get(Write(dir, link))(t)
	info, parent := must.Get(os.Stat(p.path))(t), must.Get(os.Stat(dir))(t)
	if info.Mode().Perm() != 0o600 || parent.Mode().Perm() != 0o700 {
		t.Errorf("modes %v and %v", info.Mode(), parent.Mode())
	}
	if strings.Contains(p.path, "T0KEN") || !strings.Contains(string(must.Get(os.ReadFile(p.path))(t)), `url=`+link+`"`) {
		t.Errorf("the page %s", p.path)
	}
	p.Remove()
	if _, err := os.Stat(p.path); !os.IsNotExist(err) {
		t.Errorf("after its removal: %v", err)
	}
	// Control: a directory that other users can enter is refused.
	must.Do(t, os.Chmod(dir, 0o755))
	if _, err := Write(dir, link); err == nil {
		t.Error("a directory that others may enter was taken")
	}
}
