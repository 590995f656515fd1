//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
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
	if err := process.Install(programs, "palyrad", "palyra"); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// repository is the root of the sources, relative to this package.
const repository = "../.."

// withoutHelper builds, once, a palyrad without its sandbox helper.
var withoutHelper = sync.OnceValues(func() (string, error) {
	return filepath.Join(programs, process.WithoutHelper), process.Install(programs, process.WithoutHelper)
})

// grpcurlPath returns the path of the pinned grpcurl.
func grpcurlPath(t *testing.T) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(repository, ".tools", "grpcurl")))(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("grpcurl is missing (%v); `make test` installs it", err)
	}
	return path
}
