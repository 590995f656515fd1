package disk

import (
	"errors"
	"os"
	"strings"

	"palyra/internal/exec/sandbox/origin"
	"palyra/internal/exec/workspace/overlay"
)

// Sweep removes the remains of dead daemons from a directory. It removes entries named by an
// origin.Mark, which may be followed by "-" and any text. All other entries, and entries of
// living daemons, stay.
func Sweep(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.Readdirnames(-1)
	for _, name := range entries {
		if origin.Orphaned(markOf(name)) {
			err = errors.Join(err, overlay.RemoveTree(f, name))
		}
	}
	return err
}

// markOf returns the mark at the start of a name.
func markOf(name string) string {
	parts := strings.SplitN(name, "-", 3)
	return strings.Join(parts[:min(len(parts), 2)], "-")
}
