package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Two changes within one tick of the kernel's clock leave a file that looks as
// it did between them: no digest is kept of one that was changed just now.
func TestDigestsWithinATick(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	var c hashCache
	for range 100 {
		for _, content := range []string{"one", "two"} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			want := sha256.Sum256([]byte(content))
			if got := c.of(t, name); got != "sha256:"+hex.EncodeToString(want[:]) {
				t.Fatalf("the digest of %q is %s", content, got)
			}
		}
	}
	for range 2 { // control: one that nobody changes is hashed once
		c.of(t, "/usr/bin/true")
	}
	if len(c.sums) != 1 {
		t.Errorf("%d digests are kept", len(c.sums))
	}
}

func (c *hashCache) of(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum, err := c.sum(f)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
