package call_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// trace records the order in which the stages were entered.
type trace struct {
	mu    sync.Mutex
	steps []string
}

func (t *trace) add(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, step)
}

// take returns the recorded steps and removes them.
func (t *trace) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	steps := t.steps
	t.steps = nil
	return steps
}

// evaluator is the engine with a trace.
type evaluator struct {
	*policy.Engine
	trace *trace
	// onCurrent, unless nil, is called before the set in force is looked up.
	onCurrent func()
}

func (e *evaluator) Current() *policy.Set {
	if e.onCurrent != nil {
		e.onCurrent()
	}
	return e.Engine.Current()
}

func (e *evaluator) Evaluate(ctx context.Context, r policy.Request, grants []policy.Grant) (policy.Verdict, error) {
	e.trace.add("evaluate")
	return e.Engine.Evaluate(ctx, r, grants)
}

// approver requests approvals with a trace.
type approver struct {
	*approval.Requests
	trace *trace
}

func (a *approver) Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error) {
	a.trace.add("resolve")
	return a.Requests.Resolve(ctx, ask, observe)
}

func (a *approver) Consume(ctx context.Context, answer approval.Answer, extra ...event.Draft) error {
	a.trace.add("consume " + codesOf(extra))
	return a.Requests.Consume(ctx, answer, extra...)
}

// dispatcher is the router with a trace.
type dispatcher struct {
	*dispatch.Router
	trace *trace
}

func (d *dispatcher) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	d.trace.add("check")
	return d.Router.Check(name, input)
}

func (d *dispatcher) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	d.trace.add("plan")
	return d.Router.Plan(ctx, p)
}

func (d *dispatcher) Run(ctx context.Context, c *dispatch.Decided) tool.Report {
	d.trace.add("run")
	return d.Router.Run(ctx, c)
}

// notary is the notary with a trace; fail makes it fail.
type notary struct {
	*attest.Notary
	trace *trace

	mu  sync.Mutex
	err error
}

func (n *notary) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *notary) Sign(ctx context.Context, e attest.Execution) (attest.Envelope, error) {
	n.trace.add("sign")
	n.mu.Lock()
	err := n.err
	n.mu.Unlock()
	if err != nil {
		return attest.Envelope{}, err
	}
	return n.Notary.Sign(ctx, e)
}

// ledger is the store's ledger with a trace. It fails entries that contain an event with one of
// the codes.
type ledger struct {
	call.Ledger
	trace *trace

	mu     sync.Mutex
	failOn []event.Code
	// after is called when an entry with the code is durable.
	after map[event.Code]func()
	// readErr makes reads fail.
	readErr error
	// refuse, unless nil, can make any entry fail.
	refuse func() error
}

func (l *ledger) NewestSession(ctx context.Context, k session.Key, each call.EachEvent) (session.Past, bool, error) {
	if l.readErr != nil {
		return session.Past{}, false, l.readErr
	}
	return l.Ledger.NewestSession(ctx, k, each)
}

func (l *ledger) Claimed(ctx context.Context, p access.Principal, key string) (call.Claim, bool, error) {
	if l.readErr != nil {
		return call.Claim{}, false, l.readErr
	}
	return l.Ledger.Claimed(ctx, p, key)
}

// fail makes entries with one of the codes fail; no codes end the failure.
func (l *ledger) fail(codes ...event.Code) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failOn = codes
}

// refusing sets a function that can make any write of ledger and approvals fail; nil removes
// it.
func (w *world) refusing(fn func() error) {
	w.ledger.mu.Lock()
	w.ledger.refuse = fn
	w.ledger.mu.Unlock()
	w.store.mu.Lock()
	w.store.refuse = fn
	w.store.mu.Unlock()
}

func (l *ledger) Record(ctx context.Context, e call.Entry) (int64, error) {
	l.trace.add("record " + codesOf(e.Drafts))
	l.mu.Lock()
	broken := slices.ContainsFunc(e.Drafts, func(d event.Draft) bool { return slices.Contains(l.failOn, d.Code) })
	after, refuse := l.after, l.refuse
	l.mu.Unlock()
	if broken {
		return 0, errDisk
	}
	if refuse != nil {
		if err := refuse(); err != nil {
			return 0, err
		}
	}
	seq, err := l.Ledger.Record(ctx, e)
	for _, d := range e.Drafts {
		if fn := after[d.Code]; fn != nil && err == nil {
			fn()
		}
	}
	return seq, err
}

// store is the approval store; fail makes it fail.
type store struct {
	approval.Store

	mu  sync.Mutex
	err error
	// refuse, unless nil, can make any update fail.
	refuse func() error
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) Update(ctx context.Context, fn func(approval.Tx) error) error {
	s.mu.Lock()
	err, refuse := s.err, s.refuse
	s.mu.Unlock()
	if err == nil && refuse != nil {
		err = refuse()
	}
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, fn)
}

// words are the names of the codes in a trace.
var words = map[event.Code]string{
	event.Proposed: "proposed", event.Refused: "refused", event.Evaluated: "evaluated", event.Decided: "decided",
	event.Attested: "attested", event.Ambiguous: "ambiguous",
}

func codesOf(drafts []event.Draft) string {
	var names []string
	for _, d := range drafts {
		names = append(names, words[d.Code])
	}
	return strings.Join(names, "+")
}
