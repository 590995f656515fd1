// Package upgradetest provides the archived state directories of older releases for upgrade tests.
package upgradetest

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// Release is the data of the maker of a state directory: release.json.
type Release struct {
	Commit string    `json:"commit"`
	MadeAt time.Time `json:"made_at"`
	// Events is the number of events of the journal at its export.
	Events int64 `json:"events"`
	// Activated is the policy version that an operator activated. The policy directory has a later
	// one, which forbids echo.
	Activated string `json:"activated"`
	// Asks are pending: one without votes, one with the first of two votes, one of an agent.
	Asks []Ask `json:"asks"`
	// Granted is a call that a grant allows for seven days.
	Granted Ask `json:"granted"`
	// Confirmations is the number of events that confirmed members.
	Confirmations int `json:"confirmations"`
	// Attested are ids of attestations.
	Attested []string `json:"attested"`
}

// Ask is a call of a member, with its approval or grant.
type Ask struct {
	Member string `json:"member"`
	Tool   string `json:"tool"`
	Input  string `json:"input"`
	ID     string `json:"id"`
	Digest string `json:"digest"`
	Grant  string `json:"grant,omitempty"`
}

// Archives returns the archived state directories in a directory, at least one.
func Archives(t testing.TB, dir string) []string {
	t.Helper()
	list := must.Get(filepath.Glob(filepath.Join(dir, "*.tar.gz")))(t)
	if len(list) == 0 {
		t.Fatalf("no state directory of an older release is in %s", dir)
	}
	return list
}

// Unpack unpacks an archive below a directory of the test: state, policies, workspace, bundles, and
// the data of the maker.
func Unpack(t testing.TB, archive string) (dir string, r Release) {
	t.Helper()
	dir = t.TempDir()
	f := must.Get(os.Open(archive))(t)
	defer func() { _ = f.Close() }()
	for files := tar.NewReader(must.Get(gzip.NewReader(f))(t)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("%s holds %s", archive, h.Name)
		}
		path, mode := filepath.Join(dir, h.Name), fs.FileMode(h.Mode).Perm()
		if h.Typeflag == tar.TypeDir {
			must.Do(t, os.MkdirAll(path, mode))
			continue
		}
		must.Do(t, os.WriteFile(path, must.Get(io.ReadAll(files))(t), mode))
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, "release.json")))(t), &r))
	return dir, r
}
