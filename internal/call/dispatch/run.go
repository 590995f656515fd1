package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Decided is a call that a decision allowed.
type Decided struct {
	Permit   *decision.Permit
	Proposal tool.Proposal
	// Plan is the decided plan.
	Plan tool.Plan
	// Ready is called last, immediately before the tool starts; its error prevents the start.
	// It may be nil.
	Ready  func(context.Context) error
	Output func(stream string, chunk []byte)
	// Rejudge is called if the facts about the machine (such as the sandbox's rung) have changed
	// since the decision. It returns an error if the call is not allowed with the new facts. If it
	// is nil, such a change stops the call.
	Rejudge func(tool.Facts) error
	// MayRead implements tool.Call.MayRead. If it is nil, the call reads none of the files that
	// it finds.
	MayRead func(tool.FileAccess) bool
	// MayDisclose implements tool.Call.MayDisclose; nil discloses nothing.
	MayDisclose func([]tool.FileAccess) bool
	// Commit implements tool.Call.Commit. If it is nil, commits cannot be approved.
	Commit func(context.Context, tool.CommitRequest) (tool.CommitRuling, error)
	// Peer is tool.Call.Peer.
	Peer tool.Peer
}

// Run redeems the permit and runs the call. The report always has the outcome; a call that did
// not start has the outcome refused.
func (r *Router) Run(ctx context.Context, d *Decided) (report tool.Report) {
	started := time.Now()
	prepared := &tool.Prepared{}
	defer func() { prepared.Release() }()
	if err := r.redeem(ctx, d, prepared); err != nil {
		r.refuse(ctx, &d.Proposal, started, tool.Disclose(err, d.MayDisclose), &report)
		return report
	}
	ctx, release, err := r.brake.enter(ctx)
	if err != nil {
		r.refuse(ctx, &d.Proposal, started, err, &report)
		return report
	}
	defer release()
	if err := ready(ctx, d); err != nil {
		r.refuse(ctx, &d.Proposal, started, err, &report)
		return report
	}
	isolated, end := tool.Isolate(ctx)
	defer end()
	running, clock, stop := withDeadline(isolated, r.limit(d.Proposal.Tool.Name))
	defer stop()
	r.execute(running, prepared, d.call(running, &prepared.Plan, clock), started, &report)
	r.alarm(ctx, &d.Proposal, report.Egress.Observed)
	if report.Outcome == tool.Succeeded {
		return report
	}
	if order := ordered(running); order != nil {
		report.Reason, report.Message, report.Remedy = string(order.Code), order.Message, order.NextStep()
	}
	return report
}

// call returns the call in the form that its tool takes.
func (d *Decided) call(running context.Context, plan *tool.Plan, clock *deadline) *tool.Call {
	return &tool.Call{
		Proposal: d.Proposal, Plan: *plan, Output: d.Output, MayRead: d.mayRead, MayDisclose: d.MayDisclose, Commit: d.committer(running, clock), Peer: d.Peer, Pause: clock.wait,
	}
}

// ordered returns the reason if the call was ended by a freeze or a cancel request; otherwise
// nil.
func ordered(ctx context.Context) *reason.Error {
	var order *reason.Error
	if errors.As(context.Cause(ctx), &order) && (order == errFrozen || order.Code == reason.Cancelled) {
		return order
	}
	return nil
}

// committer is Commit with the clock paused while it waits. The end of the call ends the wait,
// even if the tool passes another context.
func (d *Decided) committer(running context.Context, clock *deadline) func(context.Context, tool.CommitRequest) (tool.CommitRuling, error) {
	if d.Commit == nil {
		return nil
	}
	return func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
		defer clock.wait()()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(running, func() { cancel(context.Cause(running)) })()
		return d.Commit(ctx, r)
	}
}

// ready returns nil if the call may still start: the gateway is not frozen, the context has not
// ended, and the approval or grant was not revoked (Decided.Ready).
func ready(ctx context.Context, d *Decided) error {
	switch {
	case ordered(ctx) != nil:
		return ordered(ctx)
	case reason.Of(context.Cause(ctx)) == reason.ShuttingDown:
		return reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the call did not start")
	case ctx.Err() != nil:
		return reason.Errorf(reason.Cancelled, "the call was cancelled before it started: %w", ctx.Err())
	case d.Ready != nil:
		return d.Ready(ctx)
	}
	return nil
}

// execute runs the tool. A tool that panics has failed; its effects until then are attested
// like any other run.
func (r *Router) execute(ctx context.Context, p *tool.Prepared, c *tool.Call, started time.Time, report *tool.Report) {
	defer func() {
		if fault := recover(); fault != nil {
			*report = r.panicked(ctx, &c.Proposal, started, fault)
		}
	}()
	*report = p.Run(ctx, *c)
	r.logFault(ctx, &c.Proposal, report)
}

func (r *Router) panicked(ctx context.Context, p *tool.Proposal, started time.Time, fault any) tool.Report {
	r.log.ErrorContext(ctx, "a tool panicked", slog.String("tool", p.Tool.Name),
		slog.String("proposal", p.ID), slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
	return ended(p, started, tool.Failed, reason.Errorf(reason.Internal, "the tool failed inside the gateway"))
}

// redeem plans the call again, into prepared, and spends the permit on the result. The caller
// releases prepared, also after an error.
func (r *Router) redeem(ctx context.Context, d *Decided, prepared *tool.Prepared) error {
	if err := r.prepare(ctx, &d.Proposal, prepared); err != nil {
		return errors.Join(err, spend(d.Permit))
	}
	digest, err := prepared.Plan.Binding.Digest()
	if err != nil {
		return errors.Join(err, spend(d.Permit))
	}
	err = d.Permit.Redeem(decision.Presented{
		ProposalID:     d.Proposal.ID,
		CallDigest:     digest,
		FactsDigest:    policy.BoundDigest(&prepared.Plan),
		SnapshotDigest: r.snapshot(),
		Now:            time.Now(),
	})
	switch {
	case reason.Of(err) == reason.BindingMismatch:
		return explain(err, &d.Plan, &prepared.Plan)
	case err == nil && policy.EnvironmentChanged(&d.Plan, &prepared.Plan):
		return d.rejudge(&prepared.Plan.Facts)
	}
	return err
}

// rejudge evaluates a call on a machine that differs from the judged facts.
func (d *Decided) rejudge(now *tool.Facts) error {
	if d.Rejudge == nil {
		return reason.Errorf(reason.BindingMismatch, "the machine changed between decision and dispatch: sandbox").WithField("field", "sandbox")
	}
	return d.Rejudge(*now)
}

// mayRead is MayRead, false if it is nil.
func (d *Decided) mayRead(a tool.FileAccess) bool { return d.MayRead != nil && d.MayRead(a) }

// spend spends the permit of a call that cannot run, so that it cannot be presented again.
func spend(p *decision.Permit) error {
	if err := p.Redeem(decision.Presented{Now: time.Now()}); errors.Is(err, decision.ErrNoPermit) {
		return err
	}
	return nil
}

// explain names the bound fields and facts that differ.
func explain(mismatch error, was, is *tool.Plan) error {
	diffs, err := was.Binding.Diff(is.Binding)
	if err != nil {
		return mismatch
	}
	e := reason.Errorf(reason.BindingMismatch, "%w", mismatch)
	var names []string
	for _, d := range diffs {
		names = append(names, d.Field)
		e = e.WithField(d.Field, d.Was+" -> "+d.Is)
	}
	for _, name := range policy.ChangedFacts(*was, *is) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			e = e.WithField(name, "not what policy judged")
		}
	}
	if len(names) == 0 {
		return mismatch
	}
	e.Message = "the call changed between decision and dispatch: " + strings.Join(names, ", ")
	return e
}

// refuse creates the report of a call that did not start.
func (r *Router) refuse(ctx context.Context, p *tool.Proposal, started time.Time, err error, report *tool.Report) {
	var known *reason.Error
	switch {
	case errors.As(err, &known) && known.Code != reason.Internal:
	case ordered(ctx) != nil:
		known = ordered(ctx)
	case reason.Of(context.Cause(ctx)) == reason.ShuttingDown:
		known = reason.Errorf(reason.ShuttingDown, "the gateway is stopping; the call did not start")
	case ctx.Err() != nil:
		known = reason.Errorf(reason.Cancelled, "the call was cancelled before it started: %w", ctx.Err())
	default:
		r.log.ErrorContext(ctx, "a decided call could not start", slog.String("tool", p.Tool.Name),
			slog.String("proposal", p.ID), slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	*report = ended(p, started, tool.Refused, known)
}

// ended is the report of a call without a report of its executor.
func ended(p *tool.Proposal, started time.Time, outcome tool.Outcome, why *reason.Error) tool.Report {
	return tool.Report{
		Outcome: outcome, Reason: string(why.Code), Message: why.Message, Remedy: why.NextStep(),
		Executor:    tool.ExecutorInfo{Name: p.Tool.Executor},
		Enforcement: tool.Enforcement{Level: "none"},
		StartedAt:   started,
		FinishedAt:  time.Now(),
	}
}

// limit returns the maximum duration of a call of the named tool. It is the configured one, or
// the tool's own for calls that run elsewhere, for which the gateway only waits.
func (r *Router) limit(name string) time.Duration {
	if e := r.tools.Load().byName[name]; e != nil && e.descriptor.Executor == tool.External {
		if t, ok := e.tool.(interface{ Limit() time.Duration }); ok {
			return t.Limit()
		}
	}
	return r.timeout
}

// prepare plans the call again and holds the inspected resources. After an error nothing is
// prepared.
func (r *Router) prepare(ctx context.Context, p *tool.Proposal, prepared *tool.Prepared) error {
	e, err := r.find(p.Tool.Name)
	if err != nil {
		return err
	}
	ctx, end := tool.Isolate(ctx)
	defer end()
	if *prepared, err = e.tool.Prepare(ctx, *p); err != nil {
		*prepared = tool.Prepared{}
		return err
	}
	e.bind(&prepared.Plan.Binding, p)
	return nil
}
