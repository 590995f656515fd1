//go:build linux

package facts

import (
	"context"
	"encoding/json"
	"sync"

	toolcall "palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/exec/builtin"
)

// stage names the moment between two stages of a call in which its workspace
// is changed.
type stage int

const (
	checked    stage = iota // the input was checked; next: the plan
	planned                 // next: the grants are looked up
	granted                 // next: policy evaluates the call
	evaluated               // next: people are asked, or the decision is made
	asked                   // next: a person votes
	answered                // next: the decision is made
	decided                 // the decision is durable; next: dispatch
	prepared                // dispatch has inspected the files for the last time
	rechecked               // no permission was revoked; next: the tool
	committing              // the program has ended; next: policy judges its changes
	ruled                   // next: the changes are committed
	ran                     // next: the attestation is signed
	signed                  // next: the attestation is made durable
	stages
)

func (s stage) String() string {
	return [...]string{
		"checked", "planned", "granted", "evaluated", "asked", "answered", "decided", "prepared", "rechecked", "committing", "ruled", "ran", "signed",
	}[s]
}

// reaches reports whether calls of a tool reach the stage.
func (s stage) reaches(tool string) bool {
	return s != committing && s != ruled || runsPrograms(tool)
}

// runsPrograms reports whether a tool starts programs in the sandbox.
func runsPrograms(tool string) bool { return tool == "process.run" || tool == "shell.run" }

// call is one call in progress. Its records are read after its end, by the worker that made it.
type call struct {
	worker *worker
	tool   string
	input  json.RawMessage
	ws     string
	// aim is the path in the input, "" for none.
	aim string
	// aimed is true for a call whose own path changes more often than the rest of the workspace.
	aimed bool
	// flips is true for a call during which links alternate while its tool runs.
	flips bool
	// writes is the text that the call would write, "" for none.
	writes string
	// minted is true once the vote has created a grant.
	minted bool

	// plan is the call's most recent plan.
	plan tool.Plan

	mu sync.Mutex
	// judged holds the facts of the most recent policy evaluation.
	judged *tool.Facts
	// asking holds the facts in the approval request.
	asking tool.Facts
	// changes are the differences on the disk after the tool has run. stood lists, for each path,
	// the files that were there between the start of dispatch and that moment.
	changes []change
	stood   map[string][]string
}

type callKey struct{}

// ReachesExecutors passes to tools the call during which the workspace changes (tool.Isolate).
func (callKey) ReachesExecutors() {}

// hooks wrap the stages of a call and change its workspace between them.
type hooks struct {
	tally *tally
	// ignoreFacts makes dispatch receive the judged facts, whatever the workspace contains at that
	// time. Nothing then ties the facts to the call. It is the negative control.
	ignoreFacts bool
}

// at changes the workspace of the call in the context.
func (h *hooks) at(ctx context.Context, s stage) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return
	}
	aim := ""
	if c.aimed {
		aim = c.aim
	}
	c.worker.tree.mutate(aim)
	h.tally.mutation(s, c.tool)
}

func (h *hooks) stages(cfg toolcall.Config) toolcall.Config {
	cfg.Evaluator = &evaluator{cfg.Evaluator, h}
	cfg.Approver, cfg.Grants = &approver{cfg.Approver, h}, &granter{cfg.Grants, h}
	cfg.Dispatcher = &dispatcher{cfg.Dispatcher, h}
	cfg.Notary = &notary{cfg.Notary, h}
	cfg.Ledger = &ledger{cfg.Ledger, h}
	return cfg
}

type evaluator struct {
	toolcall.Evaluator
	*hooks
}

func (e *evaluator) Evaluate(ctx context.Context, r policy.Request, grants []policy.Grant) (policy.Verdict, error) {
	verdict, err := e.Evaluator.Evaluate(ctx, r, grants)
	if r.Commit == nil {
		e.at(ctx, evaluated)
	}
	return verdict, err
}

type granter struct {
	toolcall.Grants
	*hooks
}

func (a *granter) Find(ctx context.Context, q approval.GrantQuery) ([]approval.Grant, error) {
	grants, err := a.Grants.Find(ctx, q)
	a.at(ctx, granted)
	return grants, err
}

func (a *granter) Answer(ctx context.Context, id string, ask approval.Ask) (approval.Answer, error) {
	answer, err := a.Grants.Answer(ctx, id, ask)
	a.at(ctx, answered)
	return answer, err
}

type approver struct {
	toolcall.Approver
	*hooks
}

func (a *approver) Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		var r policy.Request
		must(json.Unmarshal(ask.Request, &r))
		c.mu.Lock()
		c.asking = r.Facts
		c.mu.Unlock()
	}
	answer, err := a.Approver.Resolve(ctx, ask, observe)
	a.at(ctx, answered)
	return answer, err
}

func (a *approver) Recheck(ctx context.Context, answer approval.Answer) error {
	err := a.Approver.Recheck(ctx, answer)
	a.at(ctx, rechecked)
	return err
}

type dispatcher struct {
	toolcall.Dispatcher
	*hooks
}

func (d *dispatcher) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	plan, err := d.Dispatcher.Plan(ctx, p)
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.plan = plan
	}
	d.at(ctx, planned)
	return plan, err
}

func (d *dispatcher) Run(ctx context.Context, decision *dispatch.Decided) tool.Report {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.worker.tree.since()
	}
	d.at(ctx, decided)
	return d.Dispatcher.Run(ctx, decision)
}

type notary struct {
	toolcall.Notary
	*hooks
}

func (n *notary) Sign(ctx context.Context, e attest.Execution) (attest.Envelope, error) {
	envelope, err := n.Notary.Sign(ctx, e)
	n.at(ctx, signed)
	return envelope, err
}

// ledger reads the durable events, on which the verdict is based.
type ledger struct {
	toolcall.Ledger
	*hooks
}

func (l *ledger) Record(ctx context.Context, e toolcall.Entry) (int64, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		for _, d := range e.Drafts {
			if d.Code == event.Evaluated {
				c.note(d.Payload)
			}
		}
	}
	return l.Ledger.Record(ctx, e)
}

// note stores the facts of an evaluation, unless the evaluation is about a commit.
func (c *call) note(payload []byte) {
	var read struct {
		Request struct {
			Facts  tool.Facts      `json:"facts"`
			Commit json.RawMessage `json:"commit"`
		} `json:"request"`
	}
	must(json.Unmarshal(payload, &read))
	if read.Request.Commit == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.judged = &read.Request.Facts
	}
}

// tool wraps a tool. A wrapped tool without effects must remain one.
func (h *hooks) tool(t builtin.Tool) tool.Runnable {
	wrapped := changing{Tool: t, hooks: h, name: t.Descriptor().Name}
	if _, ok := t.(tool.Pure); ok {
		return effectless{wrapped}
	}
	return wrapped
}

type effectless struct{ changing }

func (effectless) Pure() {}

// changing is a tool under which the workspace changes.
type changing struct {
	builtin.Tool
	*hooks
	name string
}

// Prepare inspects the files for the last time.
func (c changing) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	ready, err := c.Tool.Prepare(ctx, p)
	current, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return ready, err
	}
	c.at(ctx, prepared)
	if err != nil {
		return ready, err
	}
	if c.ignoreFacts {
		ready.Plan = current.plan
	}
	run := ready.Run
	ready.Run = func(ctx context.Context, decided tool.Call) tool.Report { return c.run(ctx, current, run, decided) }
	return ready, nil
}

func (c changing) run(ctx context.Context, current *call, run func(context.Context, tool.Call) tool.Report, decided tool.Call) tool.Report {
	if commit := decided.Commit; commit != nil {
		decided.Commit = func(given context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
			c.at(ctx, committing)
			ruling, err := commit(given, r)
			c.at(ctx, ruled)
			return ruling, err
		}
	}
	report := current.during(func() tool.Report { return run(ctx, decided) }, c.tally)
	c.at(ctx, ran)
	return report
}

// during runs the tool, in some calls while links change, and then inspects its changes.
func (c *call) during(run func() tool.Report, t *tally) (report tool.Report) {
	tree := c.worker.tree
	if c.flips {
		stop, turns := make(chan struct{}), make(chan int)
		go func() { turns <- tree.flip(stop) }()
		report = run()
		close(stop)
		t.flips.Add(int64(<-turns))
	} else {
		report = run()
	}
	tree.mu.Lock()
	defer tree.mu.Unlock()
	if c.aim != "" {
		c.stood = tree.standing()
	}
	if c.writes != "" {
		c.changes = tree.adopt()
	}
	return report
}
