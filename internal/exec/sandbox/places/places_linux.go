package places

import (
	"fmt"

	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/sandbox/origin"
)

// mark names this daemon beside others, dead ones included.
func mark() string { return origin.Mark() }

// Sweep removes the directories of daemons that were killed.
func Sweep(stateDir string) error {
	if err := disk.Sweep(LayersDir(stateDir)); err != nil {
		return fmt.Errorf("removing what earlier runs left: %w", err)
	}
	return nil
}
