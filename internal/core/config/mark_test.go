package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestByteOrderMark: a file that starts with a byte-order mark is read, and its faults have the
// right positions. Control: the same file without the mark.
func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"", "\ufeff"} {
		w := newWorld(t)
		opts := w.options()
		opts.Path = filepath.Join(w.home, "palyra.toml")
		must.Do(t, os.WriteFile(opts.Path, []byte(mark+"state_dir = \"/x\"\n[http]\nmax_bytes = 5000\n"), 0o600))
		c, origins := w.load(opts)
		if c.StateDir != "/x" || c.HTTP.MaxBytes != 5000 || origins["state_dir"].Line != 1 {
			t.Errorf("%q: %s, %d, %v", mark, c.StateDir, c.HTTP.MaxBytes, origins["state_dir"])
		}
		must.Do(t, os.WriteFile(opts.Path, []byte(mark+"no_such_key = 1\n"), 0o600))
		if text := Check(opts).Error(); !strings.Contains(text, "palyra.toml:1:1: ") {
			t.Errorf("%q: %s", mark, text)
		}
	}
	// A mark within the file is not a byte-order mark.
	w := newWorld(t)
	opts := w.options()
	opts.Path = filepath.Join(w.home, "palyra.toml")
	must.Do(t, os.WriteFile(opts.Path, []byte("a = 1\n\ufeffb = 2\n"), 0o600))
	if text := Check(opts).Error(); !strings.Contains(text, "palyra.toml:2:") {
		t.Errorf("%s", text)
	}
}
