//go:build linux

package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// programs is the directory of the built programs; TestMain sets it once.
var programs string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "palyra-fault-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if err := process.Install(programs, "palyrad", "palyra"); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, leftovers()
}

// leftovers returns an error if a process or a mount of these tests remains. A killed process
// needs a moment to disappear.
func leftovers() error {
	ctx, cancel := context.WithTimeout(context.Background(), must.Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := processesOf(programs)
		if err != nil {
			return err
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			return err
		}
		if len(left) == 0 && !strings.Contains(string(mounts), "palyra-fault") {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("left behind: processes %v; mounts:\n%s", left, mounts)
		}
	}
}

// processesOf lists the command lines of the processes that run, or trace, a program in dir.
func processesOf(dir string) (list []string, err error) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has just exited
		}
		if strings.Contains(string(text), dir) {
			list = append(list, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list, nil
}

// TestLeftoversAreFound is the control of the search for leftovers.
func TestLeftoversAreFound(t *testing.T) {
	t.Parallel()
	d := start(t)
	list := must.Get(processesOf(d.Dir))(t)
	if len(list) != 1 || !strings.Contains(list[0], "palyrad") {
		t.Errorf("a palyrad runs, and the check sees %q", list)
	}
}
