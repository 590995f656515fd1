package builtin

import (
	"context"
	"slices"
	"strings"

	"palyra/internal/canonical"
	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
)

// stream is stdout or stderr in a result.
type stream struct {
	body
	// Tail is the end of the stream when bytes before it are missing, in the
	// same encoding.
	Tail       string `json:"tail,omitempty"`
	TotalBytes int64  `json:"total_bytes"`
	SHA256     string `json:"sha256"`
	Truncated  bool   `json:"truncated"`
}

type processResult struct {
	ExitCode   *int    `json:"exit_code"`
	Signal     string  `json:"signal,omitempty"`
	TimedOut   bool    `json:"timed_out"`
	Quota      string  `json:"quota,omitempty"`
	Stdout     stream  `json:"stdout"`
	Stderr     stream  `json:"stderr"`
	DurationMS float64 `json:"duration_ms"`
	// Notes are what the caller should know of the run.
	Notes []string `json:"notes,omitempty"`
	// Error says why the call failed although the program ran.
	Error *failureText `json:"error,omitempty"`
}

func (t process) Run(ctx context.Context, c tool.Call) tool.Report {
	report := begin(t.version)
	report.Executor = tool.ExecutorInfo{Name: processExecutor(), Version: t.version, Tier: "c"}
	cmd, err := t.check(c.Proposal)
	if err != nil {
		return fail(ctx, report, err)
	}
	if cmd.program.Executable != c.Plan.Binding.Executable {
		return fail(ctx, report, reason.Errorf(reason.BindingMismatch, "the program %s is not the one that was approved", cmd.program.Path))
	}
	if err := cmd.asPlanned(c.Plan.Binding); err != nil {
		return fail(ctx, report, err)
	}
	ran, err := t.runner.Run(ctx, sandbox.Spec{
		Argv: cmd.in.Argv, Executable: c.Plan.Binding.Executable,
		WorkspaceRoot: cmd.root, WorkspaceName: cmd.name, Workspace: cmd.mode(), Cwd: cmd.cwd, Env: cmd.env, Stdin: cmd.stdin,
		Limits: cmd.limits, Egress: egress.Strict, Output: c.Output,
	})
	if ran.Started.IsZero() {
		if err == nil {
			err = reason.Errorf(reason.SpawnFailed, "the sandbox did not start the program")
		}
		return fail(ctx, report, err)
	}
	changed, changedErr := sandbox.Changed(cmd.root, c.Plan.Binding.Operands)
	if changedErr != nil {
		changed = []string{"all"}
	}
	return t.report(ctx, report, ran, changed, err)
}

// mode is how the program gets to see the workspace.
func (c command) mode() sandbox.WorkspaceMode {
	if c.readOnly {
		return sandbox.ReadOnly
	}
	return sandbox.Direct
}

// asPlanned refuses a run whose working directory or operands are not those
// that were decided on. It is the last look before the program starts.
func (c command) asPlanned(planned tool.Binding) error {
	if c.place() != planned.Cwd {
		return reason.Errorf(reason.BindingMismatch, "the working directory is %q, and %q was approved", c.place(), planned.Cwd).WithField("field", "cwd")
	}
	operands, _, err := c.operands()
	if err != nil {
		return err
	}
	if slices.Equal(operands, planned.Operands) {
		return nil
	}
	return reason.Errorf(reason.BindingMismatch, "the files that the call names are not those that were approved").WithField("field", "operands")
}

// report turns what the sandbox says into what the gateway says.
func (t process) report(ctx context.Context, report tool.Report, ran sandbox.Report, changed []string, err error) tool.Report {
	isolation := ran.Isolation
	report.Isolation = &isolation
	report.Executor.Backend = ran.Backend
	report.Enforcement = tool.Enforcement{
		Level: sandbox.Level(ran.Requested, ran.Applied), Requested: list(ran.Requested), Applied: list(ran.Applied), Downgrades: list(ran.Downgrades),
	}
	notes := unbound(&report.Enforcement, changed)
	report.ExitCode, report.Signal, report.Usage = ran.ExitCode, ran.Signal, ran.Usage
	report.StartedAt, report.FinishedAt = ran.Started.UTC(), ran.Finished.UTC()
	report.Outputs = tool.Outputs{
		StdoutSHA256: ran.Stdout.SHA256, StderrSHA256: ran.Stderr.SHA256, StdoutBytes: ran.Stdout.Total, StderrBytes: ran.Stderr.Total,
		Truncated: ran.Stdout.Truncated || ran.Stderr.Truncated,
	}
	result := processResult{
		ExitCode: ran.ExitCode, Signal: ran.Signal, TimedOut: ran.TimedOut, Quota: ran.Quota,
		Stdout: streamOf(ran.Stdout), Stderr: streamOf(ran.Stderr),
		DurationMS: float64(ran.Finished.Sub(ran.Started).Microseconds()) / 1000,
		Notes:      notes,
	}
	if err = ended(ran, err); err != nil {
		var text failureText
		// What the sandbox says comes before the state of the context: a
		// deadline of its own is not a cancellation.
		report, text = failure(explainer(ctx, ran), report, err)
		result.Error = &text
	} else {
		report.Outcome = tool.Succeeded
	}
	text, encodeErr := canonical.Marshal(result)
	if encodeErr != nil {
		return fail(context.WithoutCancel(ctx), report, encodeErr)
	}
	report.Result = text
	return report
}

// unbound says in the report that operands are not any more what was decided
// on: what the program read of them is then not known, so the level is none,
// whoever changed them. It returns the notes for the caller.
func unbound(e *tool.Enforcement, changed []string) []string {
	if len(changed) == 0 {
		return nil
	}
	for _, name := range changed {
		e.Downgrades = append(slices.Clip(e.Downgrades), "operand changed during the run: "+name)
	}
	e.Level = sandbox.LevelNone
	return []string{"These files changed while the program ran, by the program or by another, so what it read of them is not attested: " + strings.Join(changed, ", ")}
}

// explainer keeps the context from explaining a failure that the sandbox has
// explained already.
func explainer(ctx context.Context, ran sandbox.Report) context.Context {
	if ran.TimedOut || ran.Quota != "" {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// ended is the error of a run that did not end by itself.
func ended(ran sandbox.Report, err error) error {
	switch {
	case ran.TimedOut:
		return reason.Errorf(reason.TimedOut, "the program ran into its deadline and was killed with everything it had started")
	case ran.Quota != "":
		return reason.Errorf(reason.QuotaExceeded, "the program used up its limit of %s and was killed", ran.Quota).WithField("quota", ran.Quota)
	}
	return err
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// streamOf encodes both ends of a stream the same way.
func streamOf(s sandbox.Stream) stream {
	head := asBody(s.Head, s.Truncated)
	out := stream{body: head, TotalBytes: s.Total, SHA256: s.SHA256, Truncated: s.Truncated}
	if len(s.Tail) == 0 {
		return out
	}
	tail := trimStart(s.Tail)
	if head.Encoding == encodingText && isText(tail) {
		out.Tail = string(tail)
		return out
	}
	out.body = encodeAs(s.Head, false)
	out.Tail = encodeAs(s.Tail, false).Content
	return out
}

// trimStart leaves out the rest of a character that the cut went through.
func trimStart(tail []byte) []byte {
	for i := 0; i < len(tail) && i < 3; i++ {
		if tail[i]&0xc0 != 0x80 {
			return tail[i:]
		}
	}
	return tail
}
