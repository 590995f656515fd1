package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func numbered(n int, run string) func(*approval.Ask) {
	return func(a *approval.Ask) {
		a.Plan.Binding.Cwd = fmt.Sprint("default:", n)
		a.Proposal.Run = run
	}
}

func TestRateOfNewRecords(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		for n := range 20 {
			waiting(t, d, numbered(n, "r1"))
		}
		_, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(20, "r1"))), nil)
		reasontest.Want(t, "the error", err, reason.ApprovalLimit)
		waiting(t, d, numbered(20, "r2")) // control: another run may
		waiting(t, d, numbered(3, "r1"))  // joining a pending ask does not count as an ask
		time.Sleep(time.Minute)
		waiting(t, d, numbered(20, "r1"))
	})
}

func TestPendingPerRun(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		long := func(a *approval.Ask) { a.Timeout = time.Hour }
		var last *approvaltest.Pending
		for n := range 50 {
			if n%20 == 0 {
				time.Sleep(time.Minute)
			}
			last, _ = waiting(t, d, numbered(n, "r1"), long)
		}
		time.Sleep(time.Minute)
		_, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(50, "r1"))), nil)
		reasontest.Want(t, "the error", err, reason.ApprovalLimit)
		last.Leave(nil) // one slot is free again
		<-last.Done
		waiting(t, d, numbered(50, "r1"))
	})
}

func TestPendingPerPrincipal(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		long := func(a *approval.Ask) { a.Timeout = time.Hour }
		for n := range 200 {
			if n%60 == 0 {
				time.Sleep(time.Minute)
			}
			waiting(t, d, numbered(n, fmt.Sprint("run", n/10)), long)
		}
		time.Sleep(time.Minute)
		_, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(200, "fresh"))), nil)
		reasontest.Want(t, "the error", err, reason.ApprovalLimit)
	})
}

func TestCooldown(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, rec := waiting(t, d)
		decide(t, d, alice, rec.ID, no)
		<-p.Done
		until := time.Now().Add(time.Minute + time.Second).UTC().Format(time.RFC3339)
		for name, change := range map[string]func(*approval.Ask){
			"same": func(*approval.Ask) {}, "new session": otherSession, "new run": func(a *approval.Ask) { a.Proposal.Run = "r2" },
		} {
			a, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, change)), nil)
			if err != nil || a.Kind() != approval.ByDenial || a.ApprovalID() != rec.ID || !strings.Contains(a.Message(), "recently; that answer holds until "+until) || !strings.Contains(a.Remedy(), until) {
				t.Errorf("%s: %v %q, %v", name, a.Kind(), a.Message(), err)
			}
		}
		waiting(t, d, func(a *approval.Ask) { a.SnapshotDigest = "sha256:another" }) // another policy
		waiting(t, d, otherArguments)                                                // control: another call may ask
		time.Sleep(time.Minute)
		if _, again := waiting(t, d); again.ID == rec.ID {
			t.Error("a denied record was asked again")
		}
	})
}

func TestExpiredAskCoolsDown(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, _ := waiting(t, d)
		<-p.Done
		a, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t)), nil)
		if err != nil || a.Kind() != approval.ByExpiry {
			t.Errorf("%v, %v", a.Kind(), err)
		}
	})
}

// TestExpiredAskOfAPerson: after an ask expires unanswered, a repeated call by a person asks
// again. After a denial it does not.
func TestExpiredAskOfAPerson(t *testing.T) {
	t.Parallel()
	person := func(a *approval.Ask) {
		a.Proposal.Caller.Principal, a.Proposal.Caller.OnBehalfOf = bob.Principal, bob.Principal
		a.Plan.Binding.Principal, a.Plan.Binding.OnBehalfOf = bob.Principal.String(), bob.Principal.String()
	}
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, expired := waiting(t, d, person)
		<-p.Done
		again, rec := waiting(t, d, person)
		if rec.ID == expired.ID {
			t.Error("the expired record answers")
		}
		decide(t, d, alice, rec.ID, no)
		<-again.Done
		a, err := d.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, person)), nil)
		if err != nil || a.Kind() != approval.ByDenial {
			t.Errorf("%v, %v", a.Kind(), err)
		}
	})
}

func TestCooldownDisabled(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDeskOn(t, approvaltest.NewStore(t), approval.Limits{Cooldown: -1})
	p, rec := waiting(t, d)
	decide(t, d, alice, rec.ID, no)
	<-p.Done
	if _, again := waiting(t, d); again.ID == rec.ID {
		t.Error("a denied record was asked again")
	}
}

// flood submits 600 asks within ten seconds, each in a separate run and session. It returns how
// many reached approvers.
func flood(t *testing.T, d *approvaltest.Desk, by string) (asked int) {
	t.Helper()
	for n := range 600 {
		p := approvaltest.Resolve(d.Desk, approvaltest.Ask(t, numbered(n, fmt.Sprint("label", n)), func(a *approval.Ask) {
			a.Proposal.Session, a.Proposal.Caller.Principal = fmt.Sprint("s", n), access.Agent(by)
			a.Plan.Binding.Principal = "agent:" + by
		}))
		time.Sleep(10 * time.Second / 600)
		select {
		case <-p.Records:
			asked++
			p.Leave(nil) // pending asks are not the limit under test
		case out := <-p.Done:
			reasontest.Want(t, "the error", out.Err, reason.ApprovalLimit)
		}
	}
	return asked
}

// TestLabelsDoNotRaiseTheAskLimit: a client chooses the names of its runs and sessions, and
// gets no additional approval requests from new names.
func TestLabelsDoNotRaiseTheAskLimit(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		if asked := flood(t, d, "builder"); asked != 60 {
			t.Errorf("%d of 600 asks reached people, want 60", asked)
		}
		// Other callers are not affected, and after a minute the caller may ask again.
		waiting(t, d, numbered(1, "r1"), func(a *approval.Ask) {
			a.Proposal.Caller.Principal, a.Plan.Binding.Principal = access.Agent("honest"), "agent:honest"
		})
		time.Sleep(time.Minute)
		waiting(t, d, numbered(1, "r1"))
	})
}

// TestLabelsControl is the negative control: without the limit per principal, the whole flood
// reaches approvers.
func TestLabelsControl(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDeskOn(t, approvaltest.NewStore(t), approval.Limits{CreatedPerPrincipal: 1 << 20})
		if asked := flood(t, d, "builder"); asked != 600 {
			t.Errorf("%d of 600 asks reached people", asked)
		}
	})
}

// TestRateLimitSurvivesRestart: a restart does not reset the rate limit.
func TestRateLimitSurvivesRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		store := approvaltest.NewStore(t)
		d := approvaltest.NewDeskOn(t, store, approval.Limits{})
		for n := range 60 {
			waiting(t, d, numbered(n, fmt.Sprint("run", n)))
		}
		again := approvaltest.NewDeskOn(t, store, approval.Limits{})
		_, err := again.Requests.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(60, "fresh"))), nil)
		reasontest.Want(t, "the error", err, reason.ApprovalLimit)
	})
}

// TestDenialCoversEquivalentCalls: a denial also covers other spellings of the denied call. A
// pending approval covers only the exact call.
func TestDenialCoversEquivalentCalls(t *testing.T) {
	t.Parallel()
	resolves := func(to string) func(*approval.Ask) { return func(a *approval.Ask) { a.Resolved = to } }
	for name, c := range map[string]struct {
		first, again string
		asks         bool
	}{
		"the same":                {"sha256:x", "sha256:x", false},
		"another":                 {"sha256:x", "sha256:y", true},
		"control: spelling alone": {"", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := approvaltest.NewDesk(t)
				p, rec := waiting(t, d, resolves(c.first))
				// While the first waits, another spelling is another record.
				other, second := waiting(t, d, otherArguments, resolves(c.again), func(a *approval.Ask) { a.Proposal.Run = "r2" })
				if second.ID == rec.ID {
					t.Fatal("a call was joined to an ask for another one")
				}
				other.Leave(nil)
				<-other.Done
				decide(t, d, alice, rec.ID, no)
				<-p.Done
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				a := must.Get(d.Requests.Resolve(ctx, new(approvaltest.Ask(t, otherArguments, resolves(c.again), otherSession)), nil))(t)
				if asked := a.Kind() != approval.ByDenial; asked != c.asks {
					t.Errorf("asked again: %v, want %v", asked, c.asks)
				}
			})
		})
	}
}
