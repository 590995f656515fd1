package process

import (
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// Patience bounds every wait of these tests. Nothing sleeps for a fixed time:
// each wait ends as soon as what it waits for is there, so that the bound only
// says when to give up, on the slowest machine as well.
const Patience = 2 * time.Minute

// Eventually polls until ok, which returns what it saw for the message of a
// failure.
func Eventually(t *testing.T, what string, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, saw := ok()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s; last seen: %s", within, what, saw)
		case <-tick.C:
		}
	}
}

// Run runs a process to its end, which it is given when Patience is over: one
// that waits for what does not come would wait as long as its test may.
func Run(cmd *exec.Cmd) error { return runWithin(cmd, Patience) }

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

// Ended waits until a process has ended, and reports whether it did so while
// Patience lasted.
func Ended(ended <-chan struct{}) bool {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case <-ended:
		return true
	case <-patience.C:
		return false
	}
}
