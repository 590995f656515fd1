package disk

import (
	"errors"
	"os"
	"strings"

	"palyra/internal/exec/sandbox/origin"
	"palyra/internal/exec/workspace/overlay"
)

// Sweep removes what dead daemons left in a directory. Its entries are named
// by an origin.Mark, which may be followed by "-" and anything; whatever else
// is in it, and what belongs to living daemons, stays.
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

// markOf cuts off what follows the mark in a name.
func markOf(name string) string {
	parts := strings.SplitN(name, "-", 3)
	return strings.Join(parts[:min(len(parts), 2)], "-")
}
