package dispatch_test

import (
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

func newProbe() *gatewaytest.Probe {
	p := gatewaytest.NewProbe(policytest.Read)
	p.Found.Facts = tool.Facts{}
	return p
}

// world is a router with one tool and a policy snapshot that can change.
type world struct {
	*dispatch.Router
	tool     *gatewaytest.Probe
	snapshot atomic.Value
}

const snapshotNow = "sha256:now"

func newWorld(t *testing.T) *world {
	t.Helper()
	return newLoggingWorld(t, io.Discard)
}

func newLoggingWorld(t *testing.T, log io.Writer) *world {
	t.Helper()
	w := &world{tool: newProbe()}
	w.snapshot.Store(allowed(t).SnapshotDigest())
	w.Router = router(t, dispatch.Config{
		Tools: []tool.Runnable{w.tool}, Timeout: time.Minute,
		Snapshot: func() string { return w.snapshot.Load().(string) }, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	return w
}

func router(t *testing.T, cfg dispatch.Config) *dispatch.Router {
	t.Helper()
	return must.Get(dispatch.New(cfg))(t)
}

// proposal returns a checked proposal of the agent.
func (w *world) proposal(t *testing.T) tool.Proposal {
	t.Helper()
	d, input, err := w.Check("fs.read", []byte(`{"path":"a"}`))
	must.Do(t, err)
	return tool.Proposal{
		ID: ulid.Make().String(), Tool: d, Input: input, Session: "s", Run: "r",
		Caller: access.Caller{Principal: policytest.Agent, OnBehalfOf: policytest.Alice, DeviceID: "d"},
	}
}

// decide plans the proposal and returns the decided call with its permit.
func (w *world) decide(t *testing.T, p tool.Proposal) *dispatch.Decided {
	t.Helper()
	plan := must.Get(w.Plan(t.Context(), p))(t)
	digest := must.Get(plan.Binding.Digest())(t)
	in := decision.Input{
		DecisionID: ulid.Make().String(), ProposalID: p.ID, CallDigest: digest, FactsDigest: policy.BoundDigest(&plan), Verdict: allowed(t),
		Answer: approval.NotNeeded(), Budget: decision.Budget{Limit: 1, Used: 1}, Now: time.Now(),
	}
	r, permit := decision.Make(&in), decision.Mint(&in)
	if permit == nil {
		t.Fatalf("denied: %s", r.Reason)
	}
	return &dispatch.Decided{Permit: permit, Proposal: p, Plan: plan}
}

// spent reports whether the permit of a decided call is used up.
func spent(d *dispatch.Decided) bool {
	digest, _ := d.Plan.Binding.Digest()
	err := d.Permit.Redeem(decision.Presented{ProposalID: d.Proposal.ID, CallDigest: digest, Now: time.Now()})
	return errors.Is(err, decision.ErrNoPermit)
}
