package call_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// The following stages do almost no work, so that many rounds can run.

// noLedger stores no entries.
type noLedger struct{ call.Ledger }

func (noLedger) Head() (int64, [32]byte) { return 0, [32]byte{} }

func (noLedger) Record(context.Context, call.Entry) (int64, error) { return 1, nil }

func (noLedger) Ready(context.Context) error { return nil }

func (noLedger) NewestSession(context.Context, session.Key, call.EachEvent) (session.Past, bool, error) {
	return session.Past{}, false, nil
}

// noNotary returns attestations without a signature.
type noNotary struct{}

func (noNotary) Sign(context.Context, attest.Execution) (attest.Envelope, error) {
	return attest.Envelope{ID: "a", JSON: []byte("{}")}, nil
}

// noRouter executes no tools, and counts the dispatched calls.
type noRouter struct {
	tools map[string]tool.Descriptor
	ran   sync.Map // of *atomic.Int32, by device and tool
	// planning is called in each plan, unless nil.
	planning func()
}

func (r *noRouter) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	return r.tools[name], input, nil
}

func (r *noRouter) Digest(string) string { return "" }

func (r *noRouter) Plan(_ context.Context, p tool.Proposal) (tool.Plan, error) {
	if r.planning != nil {
		r.planning()
	}
	return tool.Plan{
		Binding: tool.Binding{Principal: p.Caller.Principal.String(), OnBehalfOf: p.Caller.OnBehalfOf.String(), Tool: p.Tool.Name},
		Facts:   tool.Facts{Workspace: "default", SandboxTier: "builtin", SandboxLevel: "none"},
	}, nil
}

func (r *noRouter) Resolved(_ context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	return tool.Resolved{Act: p.Tool.Name}, nil
}

func (r *noRouter) Run(_ context.Context, d *dispatch.Decided) tool.Report {
	n, _ := r.ran.LoadOrStore(d.Proposal.Caller.DeviceID+d.Proposal.Tool.Name, new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	return tool.Report{Outcome: tool.Succeeded, Result: json.RawMessage(`{}`)}
}

func (r *noRouter) count(device, name string) int32 {
	n, ok := r.ran.Load(device + name)
	if !ok {
		return 0
	}
	return n.(*atomic.Int32).Load()
}

func (r *noRouter) Effectless(string) bool { return true }

func (r *noRouter) Frozen() bool { return false }

// swiftTool returns a tool that requires no approval and does no work.
func swiftTool(name string, openWorld bool) tool.Descriptor {
	d := policytest.Read
	d.Name, d.OpenWorld, d.InputSchema = name, openWorld, json.RawMessage(`{"type":"object"}`)
	return d
}

// noBoth are policies under which a session may either read or write.
var noBoth = map[string]string{
	"by the tools used": `forbid(principal, action == Action::"tool.execute/swift.write", resource) when { context.session.tools_used.contains("swift.read") };
forbid(principal, action == Action::"tool.execute/swift.read", resource) when { context.session.tools_used.contains("swift.write") };`,
	"by taint": `forbid(principal, action == Action::"tool.execute/swift.write", resource) when { context.session.tainted };
forbid(principal, action == Action::"tool.execute/swift.read", resource) when { context.session.tools_used.contains("swift.write") };`,
}

// swift returns a pipeline of these stages.
func swift(t *testing.T, policies string) (*call.Pipeline, *noRouter) {
	t.Helper()
	read, write := swiftTool("swift.read", true), swiftTool("swift.write", false)
	engine := policy.NewEngine(loaded(t, policytest.Options{Tools: []tool.Descriptor{read, write}, Policies: policies}))
	router := &noRouter{tools: map[string]tool.Descriptor{read.Name: read, write.Name: write}}
	live := func(string) bool { return true }
	desk := approvaltest.Open(t, approvaltest.NewStore(t), call.Judge{Evaluator: engine, LiveDevice: live}, approval.Limits{})
	p := must.Get(call.New(call.Config{
		Evaluator: engine, Approver: desk.Requests, Grants: desk.Grants, Editor: desk.Edits, Dispatcher: router, Notary: noNotary{}, Ledger: noLedger{},
		MaxCallsPerRun: 1, MaxCallsPerSession: 1 << 30, SessionIdle: time.Hour, LiveDevice: live,
		Standing: func(access.Caller) error { return nil },
	}))(t)
	return p, router
}

// both runs rounds of 64 concurrent reads and 64 writes, each round in a new session, until one
// session did both. It returns that round, or 0.
func both(t *testing.T, p *call.Pipeline, r *noRouter, rounds int) int {
	t.Helper()
	for round := 1; round <= rounds; round++ {
		caller := agent
		caller.DeviceID = strconv.Itoa(round)
		var calls sync.WaitGroup
		start := make(chan struct{})
		for n := range 128 {
			name := "swift.read"
			if n%2 == 1 {
				name = "swift.write"
			}
			calls.Go(func() {
				<-start
				if _, err := p.Call(context.Background(), call.Submission{Caller: caller, Tool: name, Input: []byte("{}"), Session: strconv.Itoa(n), Run: strconv.Itoa(n)}, func(call.Event) {}); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		calls.Wait()
		reads, writes := r.count(caller.DeviceID, "swift.read"), r.count(caller.DeviceID, "swift.write")
		switch {
		case reads > 0 && writes > 0:
			return round
		case reads+writes == 0:
			t.Fatal("nothing ran at all")
		}
	}
	return 0
}

func TestNoWriteAfterRead(t *testing.T) {
	t.Parallel()
	for name, rounds := range map[string]int{"by the tools used": races, "by taint": races / 5} {
		if testing.Short() {
			rounds = 50
		}
		t.Run(name, func(t *testing.T) {
			p, router := swift(t, noBoth[name])
			if round := both(t, p, router, rounds); round > 0 {
				t.Errorf("the session of round %d both read and wrote", round)
			}
		})
	}
}

// TestStaleFactsAllowBothCalls is the negative control. A verdict from the time of the proposal
// allows a session to do both. Fresh facts that are counted without the lock allow it as well.
func TestStaleFactsAllowBothCalls(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*call.Pipeline, *noRouter){
		// Without the pause, other calls seldom run between the facts of a call and its start.
		"old facts": func(p *call.Pipeline, r *noRouter) { r.planning = runtime.Gosched; p.UseOldFacts() },
		"no lock":   func(p *call.Pipeline, _ *noRouter) { p.CountLater(runtime.Gosched) },
	} {
		for by, policies := range noBoth {
			p, router := swift(t, policies)
			spoil(p, router)
			round := both(t, p, router, 1000)
			if round == 0 {
				t.Errorf("%s, %s: no session did both", name, by)
			}
			t.Logf("%s, %s: round %d", name, by, round)
		}
	}
}
