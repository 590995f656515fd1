package decision_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// issue mints a permit, and returns the values with which it can be redeemed.
func issue(t *testing.T) (*decision.Permit, decision.Presented) {
	t.Helper()
	in := decision.Input{
		DecisionID: "d", ProposalID: proposalID, CallDigest: "sha256:call", FactsDigest: "sha256:facts", Verdict: allowed(t),
		Answer: approval.NotNeeded(), Budget: decision.Budget{Limit: 1, Used: 1}, Now: now,
	}
	r, permit := decision.Make(&in), decision.Mint(&in)
	if permit == nil {
		t.Fatalf("denied: %s", r.Reason)
	}
	return permit, decision.Presented{ProposalID: proposalID, CallDigest: "sha256:call", FactsDigest: "sha256:facts", SnapshotDigest: r.SnapshotDigest, Now: now}
}

func allowed(t *testing.T) policy.Verdict {
	t.Helper()
	return policytest.Set(t, policytest.Options{}).Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil)
}

func TestPermitWorksOnce(t *testing.T) {
	t.Parallel()
	permit, right := issue(t)
	if err := permit.Redeem(right); err != nil {
		t.Fatalf("the first use: %v", err)
	}
	if err := permit.Redeem(right); !errors.Is(err, decision.ErrNoPermit) || reason.Of(err) != reason.PermitRefused {
		t.Errorf("the second use: %v", err)
	}
}

func TestInvalidPermitIsRefused(t *testing.T) {
	t.Parallel()
	_, right := issue(t)
	var missing *decision.Permit
	for name, permit := range map[string]*decision.Permit{"nil": missing, "zero": {}, "new": new(decision.Permit)} {
		if err := permit.Redeem(right); !errors.Is(err, decision.ErrNoPermit) {
			t.Errorf("%s permit: %v", name, err)
		}
		if err := permit.Redeem(decision.Presented{}); !errors.Is(err, decision.ErrNoPermit) {
			t.Errorf("%s permit for nothing: %v", name, err)
		}
	}
}

// TestCopiedPermitIsTheSamePermit: a copy and its original are one permit. Only the first one
// presented is valid.
func TestCopiedPermitIsTheSamePermit(t *testing.T) {
	t.Parallel()
	permit, right := issue(t)
	copied := *permit
	must.Do(t, copied.Redeem(right))
	if err := permit.Redeem(right); !errors.Is(err, decision.ErrNoPermit) {
		t.Errorf("the original after its copy: %v", err)
	}
}

func TestPermitExpires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   time.Time
		good bool
	}{
		{"at once", now, true},
		{"at the end", now.Add(decision.PermitLife), true},
		{"too late", now.Add(decision.PermitLife + time.Nanosecond), false},
		{"without a clock", time.Time{}, false},
	} {
		permit, right := issue(t)
		shown := right
		shown.Now = c.at
		err := permit.Redeem(shown)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.good && reason.Of(err) != reason.PermitRefused {
			t.Errorf("%s: reason %s", c.name, reason.Of(err))
		}
		if err := permit.Redeem(right); !errors.Is(err, decision.ErrNoPermit) {
			t.Errorf("%s: it is not spent: %v", c.name, err)
		}
	}
}

// TestWrongCallConsumesThePermit: a permit presented for another call is consumed, so that a
// caller cannot try again with the right one.
func TestWrongCallConsumesThePermit(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*decision.Presented){
		"proposal":        func(p *decision.Presented) { p.ProposalID = "01JNA3PZ80PR0P0SA1000000ZZ" },
		"facts_digest":    func(p *decision.Presented) { p.FactsDigest = "sha256:other" },
		"call_digest":     func(p *decision.Presented) { p.CallDigest = "sha256:other" },
		"snapshot_digest": func(p *decision.Presented) { p.SnapshotDigest = "sha256:other" },
	} {
		permit, right := issue(t)
		wrong := right
		spoil(&wrong)
		err := permit.Redeem(wrong)
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.BindingMismatch || known.Fields["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
		if err := permit.Redeem(right); !errors.Is(err, decision.ErrNoPermit) {
			t.Errorf("%s: the right call after the wrong one: %v", field, err)
		}
		// Control: the unchanged values redeem the permit.
		permit, right = issue(t)
		if err := permit.Redeem(right); err != nil {
			t.Errorf("%s: the control: %v", field, err)
		}
	}
}

func TestConcurrentRedeemSucceedsOnce(t *testing.T) {
	t.Parallel()
	permit, right := issue(t)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			<-start
			switch err := permit.Redeem(right); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, decision.ErrNoPermit):
				lost.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 63 {
		t.Errorf("%d won, %d lost, want 1 and 63", won.Load(), lost.Load())
	}
}
