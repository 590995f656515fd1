//go:build linux

package upgrade

import (
	"fmt"
	"os"
	"testing"

	"palyra/test/process"
)

// programs is the directory of the current programs; TestMain sets it once.
var programs string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "palyra-upgrade-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	if err := process.Install(programs, "palyrad", "palyra"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
