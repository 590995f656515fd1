package seatbelt

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sandboxExec is always used by its full path. Apple has deprecated it, but every macOS release
// so far includes it.
const sandboxExec = "/usr/bin/sandbox-exec"

// New inspects the machine and returns a Runner. A missing feature is not an error: Probe reports
// it, and Run refuses because of it.
func New(cfg Config) (*Runner, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("finding palyrad's own program: %w", err)
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
