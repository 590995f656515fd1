package command

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
)

// Two changes within one tick of the kernel's clock cannot be distinguished, so no digest is
// cached for a recently changed file.
func TestDigestsWithinATick(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "program")
	var c hashCache
	for range 100 {
		for _, content := range []string{"one", "two"} {
			must.Do(t, os.WriteFile(name, []byte(content), 0o600))
			want := sha256.Sum256([]byte(content))
			if got := c.of(t, name); got != "sha256:"+hex.EncodeToString(want[:]) {
				t.Fatalf("the digest of %q is %s", content, got)
			}
		}
	}
	for range 2 { // control: an unchanged file is hashed once
		c.of(t, "/usr/bin/true")
	}
	if len(c.sums) != 1 {
		t.Errorf("%d digests are kept", len(c.sums))
	}
}

func (c *hashCache) of(t *testing.T, name string) string {
	t.Helper()
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	return must.Get(c.sum(f))(t)
}
