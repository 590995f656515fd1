package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/decision"
	"palyra/internal/dispatch"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
	"palyra/internal/tool"
)

// probe is a tool whose plan can be changed while a call is on its way, and
// that counts its runs.
type probe struct {
	descriptor tool.Descriptor
	runs       atomic.Int32

	mu      sync.Mutex
	binding tool.Binding
	planErr error
	facts   tool.Facts
	files   []tool.FileIdentity
	// closed counts how often what was held was let go of.
	closed atomic.Int32
	run    func(context.Context, tool.Call) tool.Report
}

func newProbe() *probe {
	return &probe{descriptor: policytest.Read, binding: tool.Binding{
		Cwd: "default:.", Argv: []string{"cat", "a"}, Environment: []string{"LANG=C"},
		Executable:     tool.Executable{Path: "/bin/cat", SHA256: "sha256:cat"},
		Operands:       []tool.Operand{{Path: "a", SHA256: "sha256:a"}},
		SandboxProfile: "c/rw/default", Egress: []string{"strict"},
	}}
}

func (p *probe) Descriptor() tool.Descriptor { return p.descriptor }

func (p *probe) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tool.Plan{Binding: p.binding, Subject: "fs.read:a", Facts: p.facts, Files: p.files}, p.planErr
}

func (p *probe) Prepare(ctx context.Context, proposal tool.Proposal) (tool.Prepared, error) {
	plan, err := p.Plan(ctx, proposal)
	return tool.Prepared{Plan: plan, Run: p.Run, Close: func() { p.closed.Add(1) }}, err
}

func (p *probe) Run(ctx context.Context, c tool.Call) tool.Report {
	p.runs.Add(1)
	p.mu.Lock()
	run := p.run
	p.mu.Unlock()
	if run != nil {
		return run(ctx, c)
	}
	return tool.Report{Outcome: tool.Succeeded, Result: json.RawMessage(`{"ok":true}`)}
}

// change changes what the tool finds in the world.
func (p *probe) change(fn func(*probe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(p)
}

// world is a router with one tool and a policy snapshot that can change.
type world struct {
	*dispatch.Router
	tool     *probe
	snapshot atomic.Value
}

const snapshotNow = "sha256:now"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{tool: newProbe()}
	w.snapshot.Store(allowed(t).SnapshotDigest())
	w.Router = router(t, dispatch.Config{
		Tools: []dispatch.Tool{w.tool}, Timeout: time.Minute,
		Snapshot: func() string { return w.snapshot.Load().(string) },
	})
	return w
}

func router(t *testing.T, cfg dispatch.Config) *dispatch.Router {
	t.Helper()
	r, err := dispatch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// proposal is a checked proposal of the agent.
func (w *world) proposal(t *testing.T) tool.Proposal {
	t.Helper()
	d, input, err := w.Check("fs.read", []byte(`{"path":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	return tool.Proposal{
		ID: ulid.Make().String(), Tool: d, Input: input, Session: "s", Run: "r",
		Caller: access.Caller{Principal: policytest.Agent, OnBehalfOf: policytest.Alice, DeviceID: "d"},
	}
}

// decide plans the proposal and returns it decided, with its permit.
func (w *world) decide(t *testing.T, p tool.Proposal) dispatch.Decided {
	t.Helper()
	plan, err := w.Plan(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := plan.Binding.Digest()
	if err != nil {
		t.Fatal(err)
	}
	in := decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: p.ID, CallDigest: digest, FactsDigest: policy.BoundDigest(plan), Verdict: allowed(t),
		Answer: approval.NotNeeded(), Budget: decision.Budget{Limit: 1, Used: 1}, Now: time.Now(),
	}
	r, permit := decision.Make(in), decision.Mint(in)
	if permit == nil {
		t.Fatalf("denied: %s", r.Reason)
	}
	return dispatch.Decided{Permit: permit, Proposal: p, Plan: plan}
}

// spent reports whether the permit of a decided call is used up.
func spent(d dispatch.Decided) bool {
	digest, _ := d.Plan.Binding.Digest()
	err := d.Permit.Redeem(decision.Presented{ProposalID: d.Proposal.ID, CallDigest: digest, Now: time.Now()})
	return errors.Is(err, decision.ErrNoPermit)
}
