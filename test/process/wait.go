package process

import (
	"fmt"
	"os/exec"
	"sync/atomic"
	"time"

	"palyra/internal/core/must"
)

// Run runs a process to its end, and kills it after must.Patience. A hung process would otherwise
// run until the timeout of the test.
func Run(cmd *exec.Cmd) error { return runWithin(cmd, must.Patience) }

func runWithin(cmd *exec.Cmd, most time.Duration) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	var late atomic.Bool
	patience := time.AfterFunc(most, func() {
		late.Store(true)
		_ = cmd.Process.Kill()
	})
	err := cmd.Wait()
	patience.Stop()
	if late.Load() {
		return fmt.Errorf("%v did not end within %v", cmd.Args, most)
	}
	return err
}

// Ended waits until a process has ended, and reports whether it ended within must.Patience.
func Ended(ended <-chan struct{}) bool {
	patience := time.NewTimer(must.Patience)
	defer patience.Stop()
	select {
	case <-ended:
		return true
	case <-patience.C:
		return false
	}
}
