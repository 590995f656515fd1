package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// attend announces the order, receives the listeners and the report, checks the report, lets
// palyra-init continue, and waits until the program has started. An error means that the program
// did not start.
func (c *Cell) attend(ctx context.Context, w Work, o *order) error {
	o.files.close()
	if err := send(c.control, inside.Ordered); sandbox.Passing(err) {
		return err // the helper still waits and sends no report
	} else if err != nil {
		return finalReport(c.control)
	}
	c.evidence.mounted = c.Processes.mounted
	if c.plan.Staged {
		mounted, _, err := receive(c.control, 0)
		if err != nil {
			return err
		}
		c.evidence.mounted = mounted.Mounted
	}
	if c.plan.Proxy != nil {
		if err := c.admit(ctx); err != nil {
			return err
		}
	}
	report, listener, err := receive(c.control, 1)
	if err != nil {
		return err
	}
	if len(listener) > 0 {
		if err := c.calls.start(listener[0], o.filter.table); err != nil {
			return err
		}
	}
	if err := c.Processes.learnInit(); err != nil {
		return err
	}
	c.evidence.report, c.evidence.rlimits, c.evidence.init = report, o.order.Rlimits, c.Processes.initPID
	c.evidence.filter = o.filter
	c.evidence.unpinned = unpinned(o, report.Unpinned)
	if err := c.evidence.judge(w.Spec.Required); err != nil {
		return err
	}
	if err := send(c.control, inside.Go); err != nil {
		return errNoReport
	}
	// The socket closes when the program replaces the helper.
	if _, _, err := receive(c.control, 0); !errors.Is(err, errNoReport) {
		return err
	}
	c.evidence.started = true
	if s := w.Spec.Session; s != nil && s.Started != nil {
		s.Started(sandbox.Underway{Report: c.known(w), Wrote: wrote(c.plan.Layer), Connections: c.session.connections})
	}
	return nil
}

// finalReport reads the last report of a helper that has ended.
func finalReport(control *os.File) error {
	for {
		_, fds, err := receive(control, inside.MaxListeners)
		if err != nil {
			return err
		}
		closeDescriptors(fds)
	}
}

// unpinned returns the paths of the operands that may change during the run.
func unpinned(o *order, refused []int) []string {
	paths := o.unpinned
	for _, i := range refused {
		if i >= 0 && i < len(o.order.Operands) {
			paths = append(paths, o.order.Operands[i].Path)
		}
	}
	return paths
}

// refusal converts a failure inside into a reason. The cause of a passing failure is its errno.
func refusal(r inside.Report) error {
	err := refused(r)
	if err == nil {
		return nil
	}
	if errno := unix.Errno(r.Errno); sandbox.Passing(errno) {
		return err.WithCause(errno)
	}
	return err
}

func refused(r inside.Report) *reason.Error {
	switch r.Failed {
	case "":
		return nil
	case inside.StepExec:
		if unix.Errno(r.Errno) == unix.ETXTBSY {
			return reason.Errorf(reason.SpawnFailed, "the program could not be started: its file is open for writing").
				WithRemedy("Try again after the writing process has closed it (`fuser -v FILE` names that process).")
		}
		err := reason.Errorf(reason.SpawnFailed, "the program could not be started: %s", r.Error)
		if strings.HasPrefix(r.Error, "interpreter ") {
			err = err.WithRemedy("Correct the first line of the script, or install the interpreter below /usr or in a toolchain.")
		}
		return err
	case inside.StepExecutable:
		if unix.Errno(r.Errno) == unix.ESTALE {
			return reason.Errorf(reason.BindingMismatch, "the program changed between the check and its start")
		}
		return reason.Errorf(reason.SpawnFailed, "the program is not visible inside the sandbox: %s", r.Error)
	case inside.StepOperands:
		if unix.Errno(r.Errno) == unix.ESTALE {
			return reason.Errorf(reason.BindingMismatch, "the file %s changed between the check and the start", strings.TrimSuffix(r.Error, ": "+unix.ESTALE.Error()))
		}
		return reason.Errorf(reason.SpawnFailed, "%s failed: %s", r.Failed, r.Error)
	case inside.StepSecrets:
		return reason.Errorf(reason.SpawnFailed, "%s failed: %s", r.Failed, r.Error)
	case inside.StepWorkspace:
		return reason.Errorf(reason.WorkspaceScope, "the workspace changed while the sandbox was built: %s", r.Error)
	case inside.StepCwd:
		return reason.Errorf(reason.WorkspaceScope, "the working directory cannot be entered inside: %s", r.Error)
	case inside.StepPrivate:
		return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", r.Failed, r.Error).
			WithRemedy("A copy-on-write run needs devpts, and overlayfs on the file system of each toolchain. Use workspace_mode direct or read_only, or move the toolchain to a file system such as ext4, xfs or btrfs.")
	case inside.StepOverlay:
		return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", r.Failed, r.Error).
			WithRemedy("Copy-on-write needs Linux 5.19 with overlayfs in user namespaces and a state directory on a file system such as ext4, xfs or btrfs. Use workspace_mode direct or read_only otherwise.")
	case inside.StepNetwork:
		return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", r.Failed, r.Error).
			WithRemedy("A sandbox needs control over its network namespace: allow user namespaces with capabilities (see `palyrad doctor`), or run the program offline.")
	}
	return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", r.Failed, r.Error)
}

// explain adds the output of the first process if it ended before the helper could send a report.
func explain(err error, backend string, stderr []byte) error {
	if !errors.Is(err, errNoReport) {
		return err
	}
	output := strings.TrimSpace(string(stderr))
	const most = 300
	if len(output) > most {
		output = strings.ToValidUTF8(output[:most], "")
	}
	if output == "" {
		output = fmt.Sprintf("%s ended without a report", backend)
	}
	unbuilt := reason.Errorf(reason.SandboxUnavailable, "the sandbox could not be built: %s", output)
	if errno := shortage(output); errno != 0 {
		return unbuilt.WithCause(errno)
	}
	return unbuilt.
		WithRemedy("User namespaces must be allowed for bwrap and palyrad; on Ubuntu 23.10 and later install the AppArmor profile that `palyrad doctor` prints. See `palyra status`.")
}

// shortage returns the errno of a passing failure in the output of bubblewrap, 0 for none. The
// message for the limit of namespaces does not end with the text of the errno.
func shortage(output string) unix.Errno {
	if errno := sandbox.ShortageIn(output); errno != 0 {
		return errno
	}
	if strings.Contains(output, "(ENOSPC)") && !noNamespaces() {
		return unix.ENOSPC
	}
	return 0
}
