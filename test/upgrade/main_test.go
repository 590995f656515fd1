//go:build linux

package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// programs is the directory of today's programs; TestMain sets it once.
var programs string

// repository is the root of the sources, seen from this package.
const repository = "../.."

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
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "palyrainit", "-o", programs+"/", "./cmd/palyrad", "./cmd/palyra")
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the programs: %w\n%s", err, text)
	}
	return m.Run(), nil
}
