package sandbox

import (
	"errors"
	"strings"
	"syscall"

	"palyra/internal/core/reason"
)

// shortages are the errors of a resource that other programs hold at the moment, each with the
// next step. They do not show that the machine cannot build sandboxes. The next step for open
// files is that of reason.OutOfFiles.
var shortages = []struct {
	errno  syscall.Errno
	remedy string
}{
	{syscall.EAGAIN, "Make the call again when other programs have ended, or raise the limit of processes (`ulimit -u`, TasksMax in palyrad's systemd unit)."},
	{syscall.ENOMEM, "Make the call again when other programs have ended, or lower process_runner.max_concurrent: the machine has too little free memory."},
	{syscall.ENOSPC, "Free space on the disk of the state directory, or raise user.max_user_namespaces and fs.mount-max with sysctl, as root, and make the call again."},
	{syscall.ETOOMANYREFS, "Make the call again when other programs of palyrad's user have ended: they have too many open files in flight over sockets."},
	{syscall.EMFILE, ""},
	{syscall.ENFILE, ""},
}

// Passing reports whether a sandbox could not be built because of a resource that other programs
// hold at the moment. The next call may succeed, so such an error proves nothing about the machine.
func Passing(err error) bool {
	_, passing := nextStep(err)
	return passing
}

func nextStep(err error) (remedy string, passing bool) {
	for _, s := range shortages {
		if errors.Is(err, s.errno) {
			return s.remedy, true
		}
	}
	return "", false
}

// Unbuildable converts the error of a run whose program never started: an error without a reason
// gets SandboxUnavailable, and a shortage its next step. Other errors are returned unchanged.
func Unbuildable(err error) error {
	var refused *reason.Error
	remedy, passing := nextStep(err)
	switch known := errors.As(err, &refused); {
	case !passing || known && refused.Code != reason.SandboxUnavailable:
		return err
	case !known:
		refused = reason.Errorf(reason.SandboxUnavailable, "the sandbox could not be built: %w", err)
	}
	// The cause is the whole error, which may hold more than the first reason.
	return refused.WithRemedy("%s", remedy).WithCause(err)
}

// ShortageIn returns the errno of a passing failure in the output of a program that ends its
// messages with the text of the errno, or 0.
func ShortageIn(output string) syscall.Errno {
	for line := range strings.Lines(strings.ToLower(output)) {
		for _, s := range shortages {
			if strings.HasSuffix(strings.TrimSpace(line), ": "+s.errno.Error()) {
				return s.errno
			}
		}
	}
	return 0
}

// began reports whether the program of a run started.
func (r Report) began() bool {
	return r.ExitCode != nil || r.Layer != nil || r.TimedOut || r.Quota != ""
}

// Explain returns the error of a run with its report, after Unbuildable if no program ran.
func (r Report) Explain(err error) error {
	if r.began() {
		return err
	}
	return Unbuildable(err)
}
