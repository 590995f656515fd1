//go:build linux

package upgrade

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// TestOlderStateIsRefused: the daemon and its commands refuse a state directory whose schema
// they cannot upgrade. They name the commit that can upgrade it, and do not change the
// directory.
func TestOlderStateIsRefused(t *testing.T) {
	t.Parallel()
	for _, archive := range upgradetest.Archives(t, filepath.Join("testdata", "refused")) {
		t.Run(named(archive), func(t *testing.T) {
			t.Parallel()
			dir, _ := upgradetest.Unpack(t, archive)
			g := newGateway(t, programs, dir)
			passphrase := filepath.Join(dir, "passphrase")
			must.Do(t, os.WriteFile(passphrase, []byte("one line of many bytes\n"), 0o600))
			before := contents(t, g.State)
			for _, args := range [][]string{
				nil, {"operator", "add", "zoe", "--role", "operator", "--yes", "--out", filepath.Join(dir, "zoe")}, {"operator", "bundle", "user:ann", "--out", filepath.Join(dir, "ann")},
				{"members", "confirm", "--all"}, {"backup", "--passphrase-file", passphrase, filepath.Join(dir, "backup.age")},
			} {
				r := g.run(g.Program, nil, append([]string{"--config", g.Config}, args...)...)
				if r.Code == 0 || !strings.Contains(r.Err, "which this palyrad does not upgrade") || !strings.Contains(r.Err, "palyrad of commit") {
					t.Errorf("palyrad %q: exit code %d: %s", args, r.Code, r.Err)
				}
				if after := contents(t, g.State); !maps.Equal(after, before) {
					t.Fatalf("palyrad %q changed the state directory: %v, was %v", args, after, before)
				}
			}
			r := g.run(g.palyra, nil, "journal", "verify", g.State)
			if r.Code == 0 || !strings.Contains(r.Err, "does not upgrade") {
				t.Errorf("palyra journal verify: exit code %d: %s", r.Code, r.Err)
			}
			if after := contents(t, g.State); !maps.Equal(after, before) {
				t.Errorf("palyra journal verify changed the state directory: %v, was %v", after, before)
			}
		})
	}
}

// contents maps every file below a directory to its mode and digest.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			found[path] = fmt.Sprint(info.Mode())
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = fmt.Sprintf("%s %x", info.Mode(), sha256.Sum256(text))
		return err
	}))
	return found
}
