package places

import (
	"fmt"

	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/sandbox/origin"
)

// mark distinguishes this daemon from others, including dead ones.
func mark() string { return origin.Mark() }

// Sweep removes the directories of killed daemons.
func Sweep(stateDir string) error {
	if err := disk.Sweep(LayersDir(stateDir)); err != nil {
		return fmt.Errorf("removing the remains of earlier runs: %w", err)
	}
	return nil
}
