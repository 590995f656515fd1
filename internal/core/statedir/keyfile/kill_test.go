package keyfile

import (
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
)

// A kill at any step of Write leaves the complete old or new file.
func TestWriteKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	want := map[string]string{"made": "old", "written": "old", "synced": "old", "renamed": "new"}
	for step, text := range want {
		path := filepath.Join(t.TempDir(), "key")
		must.Do(t, Write(path, []byte("old")))
		reached := false
		func() {
			defer func() { reached = recover() != nil }()
			must.Do(t, write(path, []byte("new"), func(s string) {
				if s == step {
					panic("killed")
				}
			}))
		}()
		if got := must.Get(Read(path))(t); !reached || string(got) != text {
			t.Errorf("killed at %q (%v): %q, want %q", step, reached, got, text)
		}
	}
}

func TestAlias(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")
	must.Do(t, Write(filepath.Join(dir, "cert.pem"), []byte("both")))
	must.Do(t, Write(path, []byte("old")))
	for range 2 {
		must.Do(t, Alias(path, "cert.pem"))
		if got, err := os.ReadFile(path); err == nil && string(got) != "both" {
			t.Errorf("the other name has %q", got)
		}
	}
	must.Do(t, Write(filepath.Join(dir, "cert.pem"), []byte("next")))
	if got, err := os.ReadFile(path); err == nil && string(got) != "next" {
		t.Errorf("after the file was replaced, the other name has %q", got)
	}
}
