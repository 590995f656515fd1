//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"palyra/internal/must"
)

// programs is the directory of the built programs; TestMain sets it once.
var programs string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "palyra-e2e-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	helper := filepath.Join(repository, "internal/sandbox/jail/initbin/palyra-init.gz")
	if _, err := os.Stat(helper); err != nil {
		return 1, fmt.Errorf("%s is missing; `make test` builds it", helper)
	}
	if err := build(programs, "palyrainit", "./cmd/palyrad", "./cmd/palyra"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// repository is the root of the sources, seen from this package.
const repository = "../.."

// build builds programs as `make build` does.
func build(out, tags string, packages ...string) error {
	args := append([]string{"build", "-trimpath", "-tags", tags, "-o", out + "/"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %v: %w\n%s", packages, err, text)
	}
	return nil
}

// withoutHelper builds, once, a palyrad that has no sandbox helper in it.
var withoutHelper = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(programs, "without-helper")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Join(dir, "palyrad"), build(dir, "", "./cmd/palyrad")
})

// grpcurlPath is the pinned grpcurl.
func grpcurlPath(t *testing.T) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(repository, ".tools", "grpcurl")))(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("grpcurl is missing (%v); `make test` installs it", err)
	}
	return path
}
