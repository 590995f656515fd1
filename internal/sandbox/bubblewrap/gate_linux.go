package bubblewrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
)

// attend receives the read-back, judges it, opens the gate, and waits until
// the program has started. An error means that it never did.
func (j *job) attend() error {
	report, err := j.receive()
	if err != nil {
		return err
	}
	if err := j.learnInit(); err != nil {
		return err
	}
	j.seen.report = report
	if unproved := j.judge(); len(unproved) > 0 && !j.runner.tolerant {
		return reason.Errorf(reason.SandboxUnavailable, "these layers are not in force inside: %s", strings.Join(unproved, ", ")).
			WithRemedy("Nothing ran. See `palyra status` for what this machine can do.")
	}
	if _, err := j.control.Write([]byte(inside.Go)); err != nil {
		return errNoWord
	}
	// The socket closes when the program takes the helper's place.
	if _, err := j.receive(); !errors.Is(err, errNoWord) {
		return err
	}
	j.seen.started = true
	return nil
}

// errNoWord means that the control socket closed without a message.
var errNoWord = errors.New("no word from inside")

// receive reads one message; a failure told by the helper is an error.
func (j *job) receive() (inside.Report, error) {
	buffer := make([]byte, inside.MaxMessage)
	n, err := j.control.Read(buffer)
	if err != nil || n == 0 {
		return inside.Report{}, errNoWord
	}
	var report inside.Report
	if err := json.Unmarshal(buffer[:n], &report); err != nil {
		return report, fmt.Errorf("reading the report from inside: %w", err)
	}
	return report, refusal(report)
}

// refusal turns a failure inside into a reason.
func refusal(r inside.Report) error {
	switch r.Failed {
	case "":
		return nil
	case inside.StepExec:
		return reason.Errorf(reason.SpawnFailed, "the program could not be started: %s", r.Error)
	case inside.StepExecutable:
		if unix.Errno(r.Errno) == unix.ESTALE {
			return reason.Errorf(reason.BindingMismatch, "the program changed between the check and its start")
		}
		return reason.Errorf(reason.SpawnFailed, "the program is not seen inside the sandbox: %s", r.Error)
	case inside.StepWorkspace:
		return reason.Errorf(reason.WorkspaceScope, "the workspace changed while the sandbox was built: %s", r.Error)
	}
	return reason.Errorf(reason.SandboxUnavailable, "%s failed: %s", r.Failed, r.Error)
}

// learnInit reads the host's pid of the sandbox's first process from
// bubblewrap's status, and gets hold of it.
func (j *job) learnInit() error {
	var status struct {
		ChildPID int `json:"child-pid"`
	}
	if err := json.NewDecoder(io.LimitReader(j.status, 4096)).Decode(&status); err != nil || status.ChildPID <= 0 {
		return reason.Errorf(reason.SandboxUnavailable, "bubblewrap did not say which process it started")
	}
	fd, err := unix.PidfdOpen(status.ChildPID, 0)
	if err != nil {
		return errNoWord // it is gone already
	}
	j.seen.init, j.seen.initFD = status.ChildPID, os.NewFile(uintptr(fd), "pidfd")
	return nil
}

// explain adds what bubblewrap wrote when it ended before the helper could
// speak.
func (j *job) explain(err error, r sandbox.Report) error {
	if !errors.Is(err, errNoWord) {
		return err
	}
	said := strings.TrimSpace(string(r.Stderr.Head))
	const most = 300
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "")
	}
	return reason.Errorf(reason.SandboxUnavailable, "the sandbox could not be built: %s", said).
		WithRemedy("User namespaces must be allowed for %s; on Ubuntu 23.10 and later install the AppArmor profile for bwrap. See `palyra status`.", j.runner.cfg.Bwrap)
}
