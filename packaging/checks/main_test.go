//go:build linux

package checks

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain runs the tests, or the program in whose place this one is started in a machine.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "machine-init":
		os.Exit(runInit(os.Args[1]))
	case "systemctl":
		os.Exit(runSystemctl(os.Args[1:]))
	case "without-namespaces":
		os.Exit(runWithoutNamespaces(os.Args[1:]))
	}
	if os.Getenv("PACKAGES") == "" {
		fmt.Println("not run  all cases: PACKAGES is empty; run `make check-packages`")
		os.Exit(0)
	}
	code := m.Run()
	if !printSummary() {
		code = max(code, 1)
	}
	os.Exit(code)
}
