//go:build unix

package agents

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra/test/systemd"
)

// installedIn names the variable that `make agents` sets to the directory with the agents of
// package.json.
const installedIn = "TEST_PALYRA_AGENTS"

// Directories that TestMain finds, both absolute.
var (
	// programs has palyrad, palyra and palyra-hook.
	programs string
	// agents are the directories with claude, codex and node. npm runs no package scripts here;
	// such a script would put Claude Code's program next to the others.
	agents []string
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "systemctl" {
		systemd.Main() // palyra started this process as a person's systemctl
		return
	}
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
	for _, part := range []string{"@anthropic-ai/claude-code-linux-x64", ".bin"} {
		path, err := filepath.Abs(filepath.Join(dir, "node_modules", part))
		if err != nil {
			return 1, err
		}
		agents = append(agents, path)
	}
	if programs, err = filepath.Abs("../../bin"); err != nil {
		return 1, err
	}
	for _, path := range []string{program("claude"), program("codex"), filepath.Join(programs, "palyrad"), filepath.Join(programs, "palyra-hook")} {
		if _, err := exec.LookPath(path); err != nil {
			return 1, fmt.Errorf("%w; `make agents` makes it", err)
		}
	}
	if err := checkLoopbackOnly(); err != nil {
		return 1, err
	}
	code = m.Run()
	table.print(os.Stdout)
	return code, nil
}

// program returns the path of an agent's program.
func program(name string) string {
	for _, dir := range agents {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return name
}

// checkLoopbackOnly fails unless loopback is the only network: neither agent may reach its vendor.
func checkLoopbackOnly() error {
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
