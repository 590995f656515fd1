package agents

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installedIn is the variable that `make agents` sets: the directory with the agents of
// package.json.
const installedIn = "TEST_PALYRA_AGENTS"

// Directories that TestMain finds, both absolute.
var (
	// programs has palyrad, palyra and palyra-hook.
	programs string
	// agents has claude, codex and node.
	agents string
)

func TestMain(m *testing.M) {
	dir := os.Getenv(installedIn)
	if dir == "" {
		fmt.Println("skipped: `make agents` runs these tests")
		return
	}
	code, err := prepareAndRun(m, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		code = 1
	}
	os.Exit(code)
}

func prepareAndRun(m *testing.M, dir string) (code int, err error) {
	if agents, err = filepath.Abs(filepath.Join(dir, "node_modules", ".bin")); err != nil {
		return 1, err
	}
	if programs, err = filepath.Abs("../../bin"); err != nil {
		return 1, err
	}
	for _, program := range []string{filepath.Join(agents, "claude"), filepath.Join(agents, "codex"), filepath.Join(programs, "palyrad"), filepath.Join(programs, "palyra-hook")} {
		if _, err := exec.LookPath(program); err != nil {
			return 1, fmt.Errorf("%w; `make agents` makes it", err)
		}
	}
	if err := alone(); err != nil {
		return 1, err
	}
	code = m.Run()
	table.print(os.Stdout)
	return code, nil
}

// alone fails unless loopback is the only network: neither agent may reach its vendor.
func alone() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the network %s is there; `make agents` runs these tests without one", i.Name)
		}
	}
	return nil
}
