//go:build linux

package checks

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The inputs, which scripts/check-packages.sh prepares.
var (
	// packageDir has the packages, and oldDir packages of an earlier version.
	packageDir, oldDir = os.Getenv("PACKAGES"), os.Getenv("OLD")
	// runDir is a temporary directory of this run, and baseRoot a minimal Debian in it.
	runDir   = os.Getenv("WORK")
	baseRoot = filepath.Join(runDir, "base")
	// sourceDir is the checkout.
	sourceDir = os.Getenv("SOURCE")
)

// rpmArch names this machine's architecture as rpm does.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// artifact returns the only file of a directory that matches a pattern.
func artifact(t *testing.T, dir, pattern string) string {
	t.Helper()
	found := must(filepath.Glob(filepath.Join(dir, pattern)))(t)
	if len(found) != 1 {
		t.Fatalf("%s has %d files %s, want one", dir, len(found), pattern)
	}
	return found[0]
}

func deb(t *testing.T, dir string) string {
	t.Helper()
	return artifact(t, dir, "palyra_*_"+runtime.GOARCH+".deb")
}
