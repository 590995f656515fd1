package seatbelt

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sandboxExec is always used by its full path. Apple calls it deprecated; it
// is there in every macOS up to now.
const sandboxExec = "/usr/bin/sandbox-exec"

// New looks at the machine and returns a Runner. What is missing is no error:
// Probe says it, and Run refuses with it.
func New(cfg Config) (*Runner, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for palyrad's own program: %w", err)
	}
	r, err := newRunner(cfg, sandboxExec, []string{self, ChildCommand}, follow)
	if err != nil {
		return nil, err
	}
	if version, err := unix.Sysctl("kern.osproductversion"); err == nil {
		r.backend = "sandbox-exec, macOS " + version
	}
	return r, nil
}
