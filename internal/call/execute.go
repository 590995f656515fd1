package call

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/record"
	"palyra/internal/call/session"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// executed is a call whose tool ended.
type executed struct {
	*decided
	report  tool.Report
	traffic session.Traffic
}

// execute runs the decided call.
func (c *call) execute(ctx context.Context, d *decided) *executed {
	reporter := &reporter{observe: c.observe}
	x := &executed{decided: d, report: c.Dispatcher.Run(ctx, d.dispatched(reporter))}
	x.report.Edited = d.edited
	reporter.end()
	x.traffic = record.TrafficOf(x.report.Egress)
	x.traffic.Read = x.traffic.Read || x.report.Claim != nil && x.report.Claim.State == tool.RanOther
	c.logFailure(ctx, &x.report)
	return x
}

// dispatched returns the call in the form that the dispatcher takes.
func (d *decided) dispatched(reporter *reporter) *dispatch.Decided {
	out := &dispatch.Decided{
		Permit: d.permit, Proposal: d.proposal, Plan: d.plan,
		Ready: d.checkValid, Rejudge: d.rejudge, MayRead: d.mayRead, MayDisclose: d.mayDisclose, Peer: d.sub.Peer,
		Output: func(stream string, chunk []byte) {
			if !d.atOnce { // no event precedes the decision
				reporter.tell(Event{Output: &Chunk{Stream: stream, Data: chunk}})
			}
		},
	}
	out.Peer.Session = d.sub.Session
	if !d.atOnce { // no further decision is possible
		out.Commit = func(ctx context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
			return d.commit(ctx, &r, reporter.tell)
		}
	}
	return out
}

// reporter forwards the events of a running tool to the observer, one at a time. It drops events
// that arrive after the call has ended.
type reporter struct {
	observe func(Event)
	mu      sync.Mutex
	ended   bool
}

func (t *reporter) tell(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.observe(e)
	}
}

func (t *reporter) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// checkValid returns nil if the caller may proceed and no required answer was revoked.
func (a *answered) checkValid(ctx context.Context) error {
	if err := a.callersStand(); err != nil {
		return err
	}
	if err := a.Approver.Recheck(ctx, a.answer); err != nil {
		return err
	}
	for _, one := range a.secrets {
		if err := a.Approver.Recheck(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// rejudge evaluates a decided call again with the sandbox facts of the machine at dispatch. It
// returns the reason if policy does not allow the call with them.
func (a *answered) rejudge(now tool.Facts) error {
	request := a.request
	request.Facts = now
	if a.enough(request, a.answer) {
		return nil
	}
	return reason.Errorf(reason.BindingMismatch, "the isolation of the machine changed between decision and dispatch, and policy denies the call with it").
		WithField("sandbox", "not what policy judged")
}

// mayRead reports whether policy allows the call to read a file that it found. No approval is
// requested for a single file. If policy requires one, the file is denied unless the votes on
// the call itself satisfy policy for this file too.
func (a *answered) mayRead(f tool.FileAccess) bool {
	set := a.Evaluator.Current()
	request := a.request
	request.Tool, request.Args, request.Facts = f.Tool, f.Input, f.Facts
	verdict := set.Evaluate(request, nil)
	switch verdict.Effect() {
	case policy.Allow:
		return true
	case policy.Ask:
		return subset(verdict.Determining(), a.verdict.Determining()) && a.enough(request, a.answer)
	default:
		return false
	}
}

// subset reports whether each policy of one list is in the other.
func subset(one, other []policy.Determining) bool {
	return !slices.ContainsFunc(one, func(d policy.Determining) bool {
		return !slices.ContainsFunc(other, func(o policy.Determining) bool { return o.ID == d.ID })
	})
}

// logFailure logs a call that did not succeed. The tool's message is only in the journal.
func (c *call) logFailure(ctx context.Context, r *tool.Report) {
	if c.Log == nil || r.Outcome == tool.Succeeded {
		return
	}
	c.Log.InfoContext(ctx, "a call did not succeed", slog.String("proposal", c.ids.ID), slog.String("tool", c.ids.Tool.Name),
		slog.String("principal", c.sub.Caller.Principal.String()), slog.String("outcome", string(r.Outcome)), slog.String("reason", r.Reason))
}
