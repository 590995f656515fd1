package approval_test

import (
	"context"
	"testing"
	"testing/synctest"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
)

var (
	alice = approvaltest.Caller("alice", access.RoleOperator)
	bob   = approvaltest.Caller("bob", access.RoleOperator)
	yes   = approval.Ballot{Allow: true}
	no    = approval.Ballot{Reason: "use the staging host"}
)

// waiting starts to wait for an ask and returns its record.
func waiting(t *testing.T, d *approvaltest.Desk, changes ...func(*approval.Ask)) (*approvaltest.Pending, approval.Record) {
	t.Helper()
	p := approvaltest.Resolve(d.Desk, approvaltest.Ask(t, changes...))
	select {
	case rec := <-p.Records:
		return p, rec
	case out := <-p.Done:
		t.Fatalf("the ask ended with %v, %v", out.Answer.Kind(), out.Err)
		return nil, approval.Record{}
	}
}

func decide(t *testing.T, d *approvaltest.Desk, c access.Caller, id string, b approval.Ballot) approval.Record {
	t.Helper()
	rec, err := d.Votes.Decide(t.Context(), c, id, b)
	if err != nil {
		t.Fatalf("deciding as %s: %v", c.Principal, err)
	}
	return rec
}

// allowed asks, approves and returns the answer.
func allowed(t *testing.T, d *approvaltest.Desk, b approval.Ballot, changes ...func(*approval.Ask)) approval.Answer {
	t.Helper()
	p, rec := waiting(t, d, changes...)
	decide(t, d, alice, rec.ID, b)
	out := <-p.Done
	if out.Err != nil || out.Answer.Kind() != approval.ByApproval {
		t.Fatalf("answer %v, %v, want ByApproval", out.Answer.Kind(), out.Err)
	}
	return out.Answer
}

func wantState(t *testing.T, d *approval.Desk, id string, want approval.State) approval.Record {
	t.Helper()
	rec, err := d.Records.Get(context.Background(), id)
	if err != nil || rec.State != want {
		t.Errorf("approval is %q, %v, want %q", rec.State, err, want)
	}
	return rec
}

func count(m *approvaltest.Store, code event.Code) int {
	n := 0
	for _, c := range m.Codes() {
		if c == code {
			n++
		}
	}
	return n
}

// bubble runs a test with a fake clock.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
