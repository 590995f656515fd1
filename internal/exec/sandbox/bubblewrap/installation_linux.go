package bubblewrap

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// nobody is the kernel's user and group without permissions.
const nobody = 65534

// installation is bubblewrap on this machine. It is safe for concurrent use.
type installation struct {
	path string
	// root reports that palyrad is root.
	root  bool
	early sync.WaitGroup

	mu      sync.Mutex
	version string
	sha     string
	problem *reason.Error
}

// findEarly finds bubblewrap while the Runner inspects the machine, so that the first run does not
// wait for it.
func (i *installation) findEarly() { i.early.Go(func() { _ = i.find() }) }

// find determines the version of bubblewrap at the first call. It does so again after a passing
// failure, such as too many open files, because the result of such a call shows nothing about the
// machine.
func (i *installation) find() *reason.Error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sha == "" && (i.problem == nil || sandbox.Passing(i.problem)) {
		i.problem = i.inspect()
	}
	return i.problem
}

// identity returns the version and the digest of the program, "" before find has found it.
func (i *installation) identity() (version, sha string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version, i.sha
}

// inspect refuses a set-user-ID installation, which would run as root.
func (i *installation) inspect() *reason.Error {
	program, err := os.ReadFile(i.path)
	switch {
	case sandbox.Passing(err):
		return unreadable(i.path, err)
	case err != nil:
		return reason.Errorf(reason.SandboxUnavailable, "bubblewrap is not installed at %s", i.path).
			WithRemedy("On Debian and Ubuntu: apt-get install bubblewrap. On Fedora: dnf install bubblewrap.")
	}
	if info, err := os.Stat(i.path); err != nil || info.Mode()&os.ModeSetuid != 0 {
		return reason.Errorf(reason.SandboxUnavailable, "%s has the set-user-ID bit of root", i.path).
			WithRemedy("chmod u-s %s and allow user namespaces.", i.path)
	}
	cmd := exec.Command(i.path, "--version")
	cmd.Env, cmd.Dir = []string{}, "/"
	if i.root {
		// bubblewrap never runs as root, not even to print its version.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	text, err := cmd.Output()
	if err != nil {
		return unreadable(i.path, err)
	}
	i.version, i.sha = strings.TrimSpace(string(text)), jail.Digest(program)
	return nil
}

// unreadable returns the error for a program that cannot be read or run. A shortage gets its next
// step.
func unreadable(path string, err error) *reason.Error {
	refused := reason.Errorf(reason.SandboxUnavailable, "%s does not run: %w", path, err)
	return reason.Known(sandbox.Unbuildable(refused), reason.SandboxUnavailable)
}

// takesFilters reports whether this bubblewrap has --add-seccomp-fd, which was added in 0.5.
func (i *installation) takesFilters() bool {
	version, _ := i.identity()
	_, number, _ := strings.Cut(version, " ")
	return !slices.Contains([]string{"0.0", "0.1", "0.2", "0.3", "0.4"}, strings.Join(strings.SplitN(number+"..", ".", 3)[:2], "."))
}
