package jailtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// helperPath, when set, names a palyra-init that was built before: whoever is
// started again by a test has no Go at hand.
const helperPath = "TEST_PALYRA_HELPER"

var helper = sync.OnceValues(func() ([]byte, error) {
	if name := os.Getenv(helperPath); name != "" {
		return os.ReadFile(name)
	}
	return Build("palyra/cmd/palyra-init")
})

// Helper is palyra-init as built for this test run.
func Helper() ([]byte, error) { return helper() }

// Build is a program that is built as those that run inside are.
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

// Main runs the tests once program holds palyra-init, and returns the exit
// code.
func Main(m *testing.M, program *[]byte) int {
	var err error
	if *program, err = Helper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
