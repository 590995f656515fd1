//go:build linux

package fault

import (
	"fmt"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
)

// TestKilledUnderLoad kills palyrad repeatedly while clients call, some of them with an
// approval in progress.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	const rounds, clients = 20, 8
	var told []reply
	waiting := map[string]bool{} // approvals without an answer
	for n := range rounds {
		d.Start()
		d.stillPending(waiting)
		asked, unanswered := make(chan string, 1), make(chan reply, 1)
		c := d.dial()
		c.asked = asked
		go func() { unanswered <- c.write(t.Context(), fmt.Sprintf("unanswered-%d", n), false) }()
		l := d.begin(clients, fmt.Sprintf("k%d", n))
		l.ran(t, int64(2+3*n%29)) // at a different moment in each round
		if n%2 == 1 {
			must.Receive(t, "an approval is requested", asked) // in these rounds a call waits for certain
		}
		d.Kill()
		told = append(told, l.wait()...)
		if r := <-unanswered; r.approval != "" {
			waiting[r.approval] = true
			told = append(told, r)
		}
		if err := d.verify(); err != nil {
			t.Fatalf("after kill %d: %v", n, err)
		}
	}
	d.Start()
	d.stillPending(waiting)
	d.Stop()
	s := d.holds(told)
	if len(waiting) < rounds/2 {
		t.Errorf("only %d approvals were pending at a kill", len(waiting))
	}
	t.Logf("%d kills, %d calls, %d effects, %d calls with an end", rounds, len(told), len(d.effects()), len(s.ends))
}

// stillPending fails the test if an unanswered approval is no longer pending.
func (d *daemon) stillPending(ids map[string]bool) {
	d.T.Helper()
	c := d.dial()
	for id := range ids {
		got, err := c.approvals.GetApproval(d.T.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id})
		if err != nil || got.GetApproval().GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
			d.T.Errorf("approval %s: %v, %v, want it pending", id, got.GetApproval().GetState(), err)
		}
	}
}
