package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/gateway/doctor"
)

// checked runs `palyrad check` on the settings of a gateway.
func checked(t *testing.T, cfg *config.Config, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "palyra.toml")
	must.Write(t, file, fmt.Sprintf("state_dir = %q\n[policy]\ndir = %q\n[vault]\nbackend = %q\n[process_runner]\nenabled = false\n", cfg.StateDir, cfg.Policy.Dir, cfg.Vault.Backend))
	c := Command(&out, &out)
	c.SetArgs(append([]string{"check", "--config", file}, args...))
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// contents returns the digest and the mode of each file below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info := must.Get(e.Info())(t)
		all[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			sum := sha256.Sum256(must.Get(os.ReadFile(path))(t))
			all[path] += string(sum[:])
		}
		return nil
	}))
	return all
}

// TestCheck makes one defect at a time, each in a copy of one gateway. Each has the documented exit
// code, and the check changes nothing. Control: the gateway without a defect.
func TestCheck(t *testing.T) {
	t.Parallel()
	sound := stopped(t)
	for _, row := range []struct {
		name    string
		harm    func(t *testing.T, cfg *config.Config)
		exit    int
		printed string
	}{
		{"nothing", func(*testing.T, *config.Config) {}, 0, "ok       schema"},
		{"no state yet", func(t *testing.T, cfg *config.Config) { must.Do(t, os.RemoveAll(cfg.StateDir)) }, 0, "skipped  schema"},
		{"a newer schema", func(t *testing.T, cfg *config.Config) {
			path := statedir.Store(cfg.StateDir)
			data := must.Get(os.ReadFile(path))(t)
			binary.BigEndian.PutUint32(data[60:], 999) // user_version (SQLite file format, section 1.3)
			must.Do(t, os.WriteFile(path, data, 0o600))
		}, 2, "failed   schema"},
		{"a state directory that others read", func(t *testing.T, cfg *config.Config) { chmod(t, cfg.StateDir, 0o755) }, 2, "failed   state directory"},
		{"a policy", func(t *testing.T, cfg *config.Config) {
			cfg.Policy.Dir = t.TempDir()
			must.Write(t, filepath.Join(cfg.Policy.Dir, "10-odd.cedar"), "permit(principal, action, resource) when { context.nosuch };\n")
		}, 2, "10-odd.cedar:1"},
		{"a key", func(t *testing.T, cfg *config.Config) {
			chmod(t, filepath.Join(cfg.StateDir, "ca", "notary.pem"), 0o644)
		}, 8, "failed   keys"},
		{"the journal", func(t *testing.T, cfg *config.Config) { forge(t, statedir.Store(cfg.StateDir)) }, 8, "failed   journal"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := copied(t, sound)
			row.harm(t, cfg)
			var before map[string]string
			if _, err := os.Stat(cfg.StateDir); err == nil {
				before = contents(t, cfg.StateDir)
			}
			printed, err := checked(t, cfg)
			exit := 0
			if err != nil {
				exit = reason.Lookup(reason.Of(err)).Exit
			}
			if exit != row.exit || !strings.Contains(printed, row.printed) {
				t.Errorf("exit %d, %v, want %d and %q in\n%s", exit, err, row.exit, row.printed, printed)
			}
			if before == nil {
				if _, err := os.Stat(cfg.StateDir); err == nil {
					t.Error("the state directory was made")
				}
				return
			}
			for path, is := range contents(t, cfg.StateDir) {
				if before[path] != is {
					t.Errorf("%s changed", path)
				}
			}
		})
	}
}

// TestCheckBesideADaemon: a palyrad that runs is not disturbed.
func TestCheckBesideADaemon(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	before := d.status().GetJournalSize()
	printed, err := checked(t, d.cfg, "-o", "json")
	var found doctor.Diagnosis
	if err != nil || json.Unmarshal([]byte(printed), &found) != nil || !found.Healthy || len(found.Checks) != 10 {
		t.Errorf("%v in %s", err, printed)
	}
	if after := d.status().GetJournalSize(); after != before {
		t.Errorf("the journal grew from %d to %d", before, after)
	}
}
