package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// freeSpace returns the bytes that this user may still write below a folder.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// hasNamespaces returns an error if sandboxes cannot start.
func hasNamespaces() error {
	path, err := exec.LookPath("unshare")
	if err != nil {
		return nil //nolint:nilerr // util-linux is a need of its own
	}
	out, err := exec.Command(path, "--user", "--map-root-user", "true").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("no user namespace can be made (%s): set sysctl kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0, or run as root outside a container that forbids them", strings.TrimSpace(string(out)))
	}
	return err
}
