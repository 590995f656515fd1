package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra/internal/approval"
	"palyra/internal/approval/approvaltest"
	"palyra/internal/reason"
)

func numbered(n int, run string) func(*approval.Ask) {
	return func(a *approval.Ask) {
		a.Plan.Binding.Cwd = fmt.Sprint("default:", n)
		a.Proposal.Run = run
	}
}

func TestRateOfNewRecords(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		for n := range 20 {
			waiting(t, d, numbered(n, "r1"))
		}
		_, err := d.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(20, "r1"))), nil)
		wantReason(t, err, reason.ApprovalLimit)
		waiting(t, d, numbered(20, "r2")) // control: another run may
		waiting(t, d, numbered(3, "r1"))  // joining is not asking
		time.Sleep(time.Minute)
		waiting(t, d, numbered(20, "r1"))
	})
}

func TestPendingPerRun(t *testing.T) {
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
		_, err := d.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(50, "r1"))), nil)
		wantReason(t, err, reason.ApprovalLimit)
		last.Leave(nil) // one less, and there is room again
		<-last.Done
		waiting(t, d, numbered(50, "r1"))
	})
}

func TestPendingPerPrincipal(t *testing.T) {
	d := approvaltest.NewDesk(t)
	for n := range 200 {
		waiting(t, d, numbered(n, fmt.Sprint("run", n/10)))
	}
	_, err := d.Resolve(t.Context(), new(approvaltest.Ask(t, numbered(200, "fresh"))), nil)
	wantReason(t, err, reason.ApprovalLimit)
}

func TestCooldown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, rec := waiting(t, d)
		decide(t, d, alice, rec.ID, no)
		<-p.Done
		for name, change := range map[string]func(*approval.Ask){
			"same": func(*approval.Ask) {}, "new session": otherSession, "new run": func(a *approval.Ask) { a.Proposal.Run = "r2" },
		} {
			a, err := d.Resolve(t.Context(), new(approvaltest.Ask(t, change)), nil)
			if err != nil || a.Kind() != approval.ByDenial || a.ApprovalID() != rec.ID || !strings.Contains(a.Message(), "a moment ago") {
				t.Errorf("%s: %v %q, %v", name, a.Kind(), a.Message(), err)
			}
		}
		waiting(t, d, otherArguments) // control: another call may ask
		time.Sleep(time.Minute)
		if _, again := waiting(t, d); again.ID == rec.ID {
			t.Error("a denied record was asked again")
		}
	})
}

func TestExpiredAskCoolsDown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		p, _ := waiting(t, d)
		<-p.Done
		a, err := d.Resolve(t.Context(), new(approvaltest.Ask(t)), nil)
		if err != nil || a.Kind() != approval.ByExpiry {
			t.Errorf("%v, %v", a.Kind(), err)
		}
	})
}

func TestNoCooldown(t *testing.T) {
	d := approvaltest.NewDeskOn(t, approvaltest.NewMemory(), approval.Limits{Cooldown: -1})
	p, rec := waiting(t, d)
	decide(t, d, alice, rec.ID, no)
	<-p.Done
	if _, again := waiting(t, d); again.ID == rec.ID {
		t.Error("a denied record was asked again")
	}
}
