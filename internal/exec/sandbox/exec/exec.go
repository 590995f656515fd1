// Package exec implements `palyrad sandbox exec`: it runs one program in a sandbox without a
// gateway. It makes no decision, and records and attests nothing.
package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/places"
)

// gcPercent is the garbage collector's GOGC for one run, which allocates a few MiB: collecting
// them would take longer than the sandbox. A heap of more than 16 MiB is still collected.
const gcPercent = 400

// run opens a sandbox for this one program, runs it and closes the sandbox.
func (e execution) run(ctx context.Context) error {
	debug.SetGCPercent(gcPercent)
	if err := e.preflight(ctx); err != nil {
		return ExitError{Failed, err}
	}
	at, remove, err := places.Temporary(os.TempDir())
	if err != nil {
		return ExitError{Failed, err}
	}
	code, err := e.within(ctx, at)
	if err := errors.Join(err, remove()); err != nil {
		return ExitError{code, err}
	}
	if code != 0 {
		return ExitError{Code: code}
	}
	return nil
}

// preflight checks the hosts as process.run does. In mode strict, each connection is checked
// instead.
func (e execution) preflight(ctx context.Context) error {
	if e.spec.Egress != egress.Preflight {
		return nil
	}
	rules, err := egress.ParseRules(e.allow)
	if err != nil {
		return err
	}
	dialer := &egress.Dialer{Rules: egress.Rules{Allow: rules}}
	for _, host := range e.allow {
		if err := dialer.Preflight(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// within runs the program in the sandbox of its tier, and returns the exit code of palyrad. It
// does not probe first: the error of the run reports missing features.
func (e execution) within(ctx context.Context, at places.Places) (code int, err error) {
	b, err := e.steps(e.runner, at)[0].Open()
	if err != nil {
		return Failed, fmt.Errorf("opening the sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := errors.Join(b.Sweep(ctx), places.SweepTemporary(os.TempDir())); err != nil {
		e.say("removing what killed runs left: %v", err)
	}
	if e.spec.WorkspaceRoot == "" {
		if e.spec.WorkspaceRoot, err = emptyWorkspace(at); err != nil {
			return Failed, err
		}
	}
	e.spec.WorkspaceName = "workspace"
	e.spec.Output = e.pass
	return e.attempt(ctx, b, at)
}

// emptyWorkspace creates a directory that is removed after the run. It is writable for the user
// of the program.
func emptyWorkspace(at places.Places) (string, error) {
	dir := at.Layers + "-workspace"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("creating an empty workspace: %w", err)
	}
	return dir, nil
}

// pass prints output as it arrives.
func (e execution) pass(stream string, chunk []byte) {
	w := e.stdout
	if stream == "stderr" {
		w = e.stderr
	}
	_, _ = w.Write(chunk)
}

// say prints a message for people, who may base a decision on it. It escapes names and contents
// from a program, because they must not control the terminal.
func (e execution) say(format string, args ...any) {
	_, _ = fmt.Fprintln(e.stderr, text.Visible(fmt.Sprintf("palyrad: "+format, args...)))
}

func (e execution) attempt(ctx context.Context, runner sandbox.Runner, at places.Places) (int, error) {
	ran, err := runner.Run(ctx, e.spec)
	if ran.Started.IsZero() {
		return Failed, err
	}
	if ran.Rung == sandbox.Landlocked {
		e.say("user namespaces are not available on this machine: the program ran on the rung %s", ran.Rung)
	}
	if err := e.keepQuarantine(ran, at); err != nil {
		return Failed, err
	}
	e.sayDenied(ran)
	code, why := exitOf(ran, err)
	changes, settleErr := e.settle(ctx, ran, at)
	if settleErr != nil {
		code, why = Failed, errors.Join(why, settleErr)
	}
	if err := e.write(ran, changes); err != nil {
		return Failed, errors.Join(why, err)
	}
	return code, why
}

// sayDenied prints the limits that refused something, the denied hosts, and for a program that
// failed the refused system calls. A report contains all of them.
func (e execution) sayDenied(ran sandbox.Report) {
	if e.report != "" {
		return
	}
	for _, u := range ran.Reached() {
		if u.Effect != tool.LimitEnded { // that limit is in the error
			sentence, _ := sandbox.DescribeLimit(u)
			e.say("%s", sentence)
		}
	}
	for _, sentence := range egress.Explanations(ran.Connections, ran.ConnectionsMissed, e.hosts()) {
		e.say("%s", sentence)
	}
	if failed := ran.ExitCode == nil || *ran.ExitCode != 0; failed {
		for _, r := range ran.Refusals {
			e.say("%s", sandbox.DescribeRefusal(r))
		}
	}
}

// hosts returns the hosts that the program may reach.
func (e execution) hosts() []string {
	if e.spec.Network == nil {
		return e.allow
	}
	return e.spec.Network.Hosts()
}

// keepQuarantine moves protected files that the program created to a directory of their owner.
func (e execution) keepQuarantine(ran sandbox.Report, at places.Places) error {
	if len(ran.Quarantined) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "palyra-quarantine-")
	if err == nil {
		err = os.Rename(at.Quarantine, filepath.Join(dir, "files"))
	}
	if err != nil {
		return fmt.Errorf("keeping the protected files that the program created: %w", err)
	}
	e.say("new protected files were moved to %s: %s", dir, strings.Join(ran.Quarantined, ", "))
	return nil
}

// exitOf returns the exit code of palyrad, and an error if it is not the program's own.
func exitOf(ran sandbox.Report, err error) (int, error) {
	stopped := ran.Stopped()
	switch {
	case ran.TimedOut:
		return TimedOut, stopped.WithRemedy("Increase it with --timeout.")
	case stopped != nil:
		return Failed, stopped.WithRemedy("Increase it with --limit.")
	case reason.Of(err) == reason.Cancelled:
		return Stopped, nil
	case err != nil:
		return Failed, err
	case ran.ExitCode == nil:
		return Failed, reason.Errorf(reason.SpawnFailed, "the program did not end by itself")
	}
	return *ran.ExitCode, nil
}
