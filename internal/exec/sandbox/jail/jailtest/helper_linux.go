package jailtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// helperPath is a variable that, if set, names a prebuilt palyra-init: a restarted test process
// has no Go toolchain.
const helperPath = "TEST_PALYRA_HELPER"

var helper = sync.OnceValues(func() ([]byte, error) {
	if name := os.Getenv(helperPath); name != "" {
		return os.ReadFile(name)
	}
	return Build("palyra/cmd/palyra-init")
})

// Helper returns palyra-init, built for this test run.
func Helper() ([]byte, error) { return helper() }

// Build builds a static program, like the ones that run inside sandboxes.
func Build(folder string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "palyra-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", folder, err, text)
	}
	return os.ReadFile(out)
}

// Main sets program to palyra-init, runs the tests and returns the exit code.
func Main(m *testing.M, program *[]byte) int {
	var err error
	if *program, err = Helper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
