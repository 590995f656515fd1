// Package needs states a test's requirements of the machine and of the run, and skips or fails the
// test if they are not met. `make quick` is go test -short; `make test-all` sets TEST_PALYRA_LONG.
package needs

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// longVariable is set by the tiers of `make test-all`.
const longVariable = "TEST_PALYRA_LONG"

// Programs requires foreign programs. `make quick` skips the test; other runs fail if one of
// the programs is missing.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make quick starts no foreign program")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%s is missing; make test installs it", name)
		}
	}
}

// Sandbox requires a sandbox: on Linux, bubblewrap.
func Sandbox(t testing.TB) {
	t.Helper()
	if runtime.GOOS == "linux" {
		Programs(t, "bwrap")
	} else {
		Programs(t)
	}
}

// Long reports whether the run includes long tests. A test that does only part of its work
// otherwise calls it with the time that all of its work takes on two processors.
func Long(whole time.Duration) bool {
	_ = whole
	return os.Getenv(longVariable) != "" && !testing.Short()
}

// Time skips a test that takes this long on two processors, except in `make test-all`.
func Time(t testing.TB, takes time.Duration) {
	t.Helper()
	if !Long(takes) {
		t.Skipf("it takes %v; make test-all runs it", takes)
	}
}
