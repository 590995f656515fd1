//go:build unix

package statedir

import (
	"path/filepath"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// A copy of the descriptor, as a child has between fork and exec, does not lock the directory
// after its release.
func TestReleasedWhileAChildHoldsTheFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first := must.Get(Take(dir))(t)
	copied := must.Get(syscall.Dup(int(first.file.Fd())))(t)
	defer syscall.Close(copied)
	if _, err := Take(dir); err == nil {
		t.Fatal("two hold the directory") // control
	}
	must.Do(t, first.Release())
	must.Do(t, must.Get(Take(dir))(t).Release())
}
