package places

import (
	"fmt"
	"io"

	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/sandbox/origin"
)

// mark distinguishes this daemon from others, including dead ones.
func mark() string { return origin.Mark() }

// pattern is the pattern of the directories of Temporary.
func pattern() string { return disk.SharedPattern() }

// hold keeps other processes from removing a directory; see disk.Hold.
func hold(dir string) (io.Closer, error) { return disk.Hold(dir) }

// SweepTemporary removes the directories of Temporary below base whose process was killed.
func SweepTemporary(base string) error {
	if err := disk.SweepUnheld(base); err != nil {
		return fmt.Errorf("removing the remains of earlier runs: %w", err)
	}
	return nil
}

// Sweep removes the directories of killed daemons.
func Sweep(stateDir string) error {
	if err := disk.Sweep(LayersDir(stateDir)); err != nil {
		return fmt.Errorf("removing the remains of earlier runs: %w", err)
	}
	return nil
}
