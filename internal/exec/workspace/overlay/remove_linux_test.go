package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"palyra/internal/core/must"
)

// TestRemoveTreeTogether: processes that remove one tree at the same time all succeed, because a
// part that another has removed is no error.
func TestRemoveTreeTogether(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.Open(t.TempDir()))(t)
	t.Cleanup(func() { dir.Close() })
	for round := range 20 {
		name := fmt.Sprint("tree", round)
		for i := range 50 {
			must.Do(t, os.MkdirAll(filepath.Join(dir.Name(), name, fmt.Sprint(i), "deep"), 0o700))
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { must.Check(t, RemoveTree(dir, name)) })
		}
		all.Wait()
		if _, err := os.Lstat(filepath.Join(dir.Name(), name)); !os.IsNotExist(err) {
			t.Fatalf("the tree is left: %v", err)
		}
	}
}
