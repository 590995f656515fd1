//go:build unix

package agents

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestDownRestoresTheHome compares every file of the home before `palyra up` with the files
// after `palyra down`. Only the gateway's state, which includes the journal, may be new.
func TestDownRestoresTheHome(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	before := listing(t, p.home)
	p.up()
	if during := listing(t, p.home); during[".claude/settings.json"] == before[".claude/settings.json"] || during[".codex/hooks.json"] == "" {
		t.Fatal("palyra up changed nothing, so that nothing is compared")
	}
	pid := p.pid()
	p.palyra("down").Want(t, 0)
	after := listing(t, p.home)
	const kept = ".local/state/palyra"
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if name == kept || strings.HasPrefix(name, kept+"/") || name == ".local" || name == ".local/state" {
			continue
		}
		if before[name] != after[name] {
			t.Errorf("%s: %q before palyra up, %q after palyra down", name, before[name], after[name])
		}
	}
	for name := range before {
		if after[name] == "" {
			t.Errorf("%s is gone", name)
		}
	}
	for _, socket := range []string{"palyrad.sock", "hooks.sock"} {
		if _, err := os.Lstat(filepath.Join(p.home, kept, socket)); err == nil {
			t.Errorf("the socket %s is still there", socket)
		}
	}
	if pid == 0 || !ended(pid) {
		t.Errorf("palyrad (process %d) still runs, or never did", pid)
	}
}

// listing maps each name below a directory to its kind, mode and digest.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := make(map[string]string)
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		list[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			list[name] += " " + hex.EncodeToString(sum[:])
		}
		return nil
	}))
	return list
}
