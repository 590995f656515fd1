package builtin

import (
	"context"
	"errors"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// programRunner runs the programs of decided calls and reports the results.
type programRunner struct {
	version string
	network networkRules
	secrets secretLoans
	// turns limits the number of programs that run at once.
	turns      *limit.Queue
	history    overlay.History
	author     func() command.Author
	openCaches func(workspace string) ([]sandbox.Cache, func(), error)
}

func (r programRunner) run(ctx context.Context, c tool.Call, cmd programCall) tool.Report {
	report := begin(r.version)
	report.Executor = tool.ExecutorInfo{Name: processExecutor(), Version: r.version, Tier: cmd.machine.tier()}
	if cmd.machine.tier() == string(sandbox.TierB) {
		report.Executor.Name = tool.TierB
	}
	report.Egress = cmd.net.report()
	if err := r.network.preflight(ctx, cmd.net.hosts); err != nil {
		return report.Fail(ctx, err)
	}
	given, end, err := r.secrets.inject(ctx, c, cmd)
	defer end()
	if err != nil {
		return report.Fail(ctx, err)
	}
	return given.Clean(r.runWith(ctx, c, cmd, given, report))
}

// runWith runs the program with its secrets.
func (r programRunner) runWith(ctx context.Context, c tool.Call, cmd programCall, given envsecret.Secrets, report tool.Report) tool.Report {
	end := r.secrets.lend(c, &cmd)
	defer end()
	spec := r.spec(cmd, c)
	given.Into(&spec)
	if len(cmd.caches) > 0 {
		caches, release, err := r.openCaches(cmd.name)
		if err != nil {
			return report.Fail(ctx, err)
		}
		defer release()
		spec.Caches = caches
	}
	ran, err := r.inTurn(ctx, cmd.machine.runner, c.Proposal.Caller, spec)
	if ran.Started.IsZero() {
		if err == nil {
			err = reason.Errorf(reason.SpawnFailed, "the sandbox did not start the program")
		}
		report = report.Fail(ctx, errors.Join(err, ran.Layer.Close()))
		if reason.Code(report.Reason) == reason.RateLimited {
			report.Outcome = tool.Refused
		}
		return report
	}
	o := outcome{ran: ran, notes: cmd.foreseen.notes(), err: ended(ran, err), changed: append(cmd.changedOperands(c.Plan.Binding.Operands, ran), cmd.appeared(c.Plan.Binding.Operands)...)}
	// An end by the sandbox takes precedence over the state of the context: the sandbox's own
	// deadline is not a cancellation.
	if ran.TimedOut || ran.Quota != "" {
		ctx = context.WithoutCancel(ctx)
	}
	o.changes, o.err = commitgate.Settle(ctx, commitgate.Work{
		Call: c, Layer: ran.Layer, Workspace: cmd.name, By: cmd.program.Path, ExitCode: ran.ExitCode, DryRun: cmd.in.DryRun, History: r.history,
		Judge: given.Judge,
	}, o.err)
	if err := ran.Layer.Close(); err != nil {
		o.notes = append(o.notes, "The copy of the workspace could not be removed; palyrad removes it at its next start.")
	}
	return o.report(ctx, cmd.net.mode, report)
}

// spec returns the sandbox specification.
func (r programRunner) spec(cmd programCall, c tool.Call) sandbox.Spec {
	return sandbox.Spec{
		Argv: cmd.in.Argv, Executable: c.Plan.Binding.Executable,
		WorkspaceRoot: cmd.root, WorkspaceName: cmd.name, Workspace: cmd.mode, HostPath: workspace.HasWorktrees(cmd.root, cmd.cwd), Protected: cmd.protected, Operands: c.Plan.Binding.Operands,
		Toolchains: slices.Concat(cmd.toolchains, cmd.repository.mounts(c)), Author: r.author(), Cwd: cmd.cwd, Env: cmd.env, Stdin: cmd.stdin, Limits: cmd.limits, Egress: cmd.net.mode, Network: cmd.net.reach(cmd.machine),
		Required: cmd.machine.requiredFor(cmd.mode), Owner: c.Proposal.Caller.Principal.String(), Output: c.Output,
	}
}

// changedOperands returns the operands whose bytes differ from the decided ones. In mode
// CopyOnWrite it checks only unpinned operands: the program's copy contained the approved bytes
// of the pinned ones, regardless of later changes.
func (c programCall) changedOperands(operands []tool.Operand, ran sandbox.Report) []string {
	if c.mode == sandbox.CopyOnWrite {
		operands = slices.DeleteFunc(slices.Clone(operands), func(o tool.Operand) bool { return !slices.Contains(ran.Unpinned, o.Path) })
	}
	changed, err := command.Changed(c.root, operands)
	if err != nil {
		return []string{"all"}
	}
	return changed
}

// appeared returns files that the call names and that did not exist at the decision, so that the
// approval does not bind them. In mode Direct it returns none, because the program may have
// created them itself.
func (c programCall) appeared(bound []tool.Operand) []string {
	if c.mode == sandbox.Direct {
		return nil
	}
	now, err := c.operands()
	if err != nil {
		return []string{"all"}
	}
	var list []string
	for _, o := range now.Operands {
		if !slices.ContainsFunc(bound, func(b tool.Operand) bool { return b.Path == o.Path }) {
			list = append(list, o.Path)
		}
	}
	return list
}

// ended returns the error of a run that was ended by the sandbox.
func ended(ran sandbox.Report, err error) error {
	if stopped := ran.Stopped(); stopped != nil {
		return stopped
	}
	return err
}

// outcome is the complete result of a run.
type outcome struct {
	ran sandbox.Report
	err error
	// changed are operands that changed during the run.
	changed []string
	changes commitgate.Outcome
	notes   []string
}

// report converts the sandbox's report into a tool report.
func (o outcome) report(ctx context.Context, mode egress.Mode, report tool.Report) tool.Report {
	ran := o.ran
	ran.Describe(&report, mode)
	notes := slices.Concat(unbound(&report.Enforcement, o.changed), limitNotes(ran), violationNotes(ran),
		egress.Explanations(report.Egress.Observed, report.Egress.Missed, report.Egress.Allowed), quarantineNotes(ran), o.changes.Notes, o.notes)
	report.Changes, report.Files = o.changes.Record, o.changes.Files
	result := processResult{
		ExitCode: ran.ExitCode, Signal: ran.Signal, TimedOut: ran.TimedOut, Quota: ran.Quota, Limits: ran.Reached(),
		Stdout: streamOf(ran.Stdout), Stderr: streamOf(ran.Stderr),
		DurationMS: float64(ran.Finished.Sub(ran.Started).Microseconds()) / 1000,
		Refusals:   report.Refusals, RefusalsMissed: report.RefusalsMissed,
		Notes: notes, Changes: o.changes.Summary,
	}
	if o.err != nil {
		var text tool.Failure
		report, text = report.Because(ctx, o.err)
		if errors.Is(o.err, errNotStarted) {
			report.Outcome = tool.Refused
		}
		result.Error = &text
	} else {
		report.Outcome = tool.Succeeded
	}
	text, encodeErr := canonical.Marshal(result)
	if encodeErr != nil {
		return report.Fail(context.WithoutCancel(ctx), encodeErr)
	}
	report.Result = text
	return report
}

// errNotStarted reports that a program was never started.
var errNotStarted = errors.New("was waiting for other programs to end")

// inTurn runs a program when its caller's turn comes. The commit of its changes may wait for an
// approval afterwards; it does not occupy a place then.
func (r programRunner) inTurn(ctx context.Context, runner sandbox.Runner, caller access.Caller, spec sandbox.Spec) (sandbox.Report, error) {
	leave, err := r.turns.Enter(ctx, limit.Who{Owner: caller.OnBehalfOf.String(), Principal: caller.Principal.String()})
	var full *limit.Full
	switch {
	case errors.As(err, &full):
		return sandbox.Report{}, reason.Errorf(reason.RateLimited, "%s are already waiting for other programs to end; try again in %s",
			text.Plural(full.Waiting, "call"), full.RetryAfter.Round(time.Second)).WithField("retry_after", full.RetryAfter.String()).
			WithRemedy("Try again later, or ask the operator to raise process_runner.max_concurrent or max_waiting.")
	case err != nil:
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call ended while it %w", errNotStarted).
			WithRemedy("Try again, or ask the operator to raise process_runner.max_concurrent.")
	}
	defer leave()
	return runner.Run(ctx, spec)
}
