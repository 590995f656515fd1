//go:build linux

package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

// TestEditKilled kills palyrad at each durable step of an edit, and right after the edit was
// answered. Afterwards the pending call is completely the original or the edited one: the
// journal has the edit with its verdict, or nothing of it. No call runs without approval, and
// an approval applies only to the pending call.
func TestEditKilled(t *testing.T) {
	t.Parallel()
	canTrace(t)
	d := prepare(t)
	wal := d.store() + "-wal"
	steps := []step{{}} // the zero step is no system call: the kill follows the answer
	for n := range 2 {
		steps = append(steps, step{"fsync", wal, n + 1})
	}
	for n := range 3 { // a commit writes its pages with one call
		steps = append(steps, step{"pwrite64", wal, n + 1})
	}
	kills, edited := 0, 0
	for n, s := range steps {
		killed, stands := d.editKilledAt(n, s)
		if !killed && s.n == 1 {
			t.Errorf("nothing is killed at %s", s)
		}
		if killed {
			kills++
		}
		if stands {
			edited++
		}
	}
	if edited == 0 || edited == len(steps) {
		t.Errorf("of %d edits %d stand: some kill has to come before, and some after", len(steps), edited)
	}
	t.Logf("%d kills while an edit is made, %d of %d edits stand", kills, edited, len(steps))
}

// editKilledAt edits a call while palyrad is killed at a step, and checks the result. It
// reports whether palyrad was killed before it answered, and whether the edit is in effect.
func (d *daemon) editKilledAt(n int, s step) (killed, stands bool) {
	t := d.T
	t.Helper()
	file := fmt.Sprintf("edited-%d", n)
	d.Start()
	c := d.dial()
	asked, gone := make(chan string, 1), make(chan reply, 1)
	c.asked = asked
	go func() { gone <- c.write(t.Context(), file, false) }()
	id := <-asked
	before := must.Get(c.approvals.GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(t).GetApproval()
	heal := func() {}
	if s.calls != "" {
		heal = d.inject(s.calls, s.signal(), s.path)
	}
	input := must.Get(json.Marshal(map[string]string{"path": file, "content": "something else\n"}))(t)
	_, err := c.approvals.EditApproval(t.Context(), &palyrav1.EditApprovalRequest{
		ApprovalId: id, Version: before.GetVersion(), ShownDigest: before.GetCallDigest(), InputJson: input,
	})
	answered := err == nil
	if killed = !answered; killed {
		d.Wait(t)
		heal()
	} else {
		heal()
		d.Kill()
	}
	what := fmt.Sprintf("after a kill at %s (answered: %v)", s, answered)
	told := <-gone
	must.Check(t, d.verify())
	amended, calls := d.editsOf(id)
	if len(amended) != len(calls) || len(amended) > 1 || answered && len(amended) != 1 {
		t.Errorf("%s the journal has %d amendments and %d edited calls", what, len(amended), len(calls))
	}
	d.Start()
	defer func() {
		d.Stop()
		d.holds([]reply{told})
	}()
	c = d.dial()
	after := must.Get(c.approvals.GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(t).GetApproval()
	want := before.GetCallDigest()
	if stands = len(amended) == 1; stands {
		want = amended[0].CallDigest
		if want == before.GetCallDigest() || calls[0].CallDigest != want || amended[0].WasDigest != before.GetCallDigest() {
			t.Errorf("%s the journal says %+v of %+v", what, amended[0], calls[0])
		}
	}
	if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || after.GetCallDigest() != want || len(after.GetEdits()) != len(amended) {
		t.Errorf("%s it is %s with %d edits and digest %s, want %s", what, after.GetState(), len(after.GetEdits()), after.GetCallDigest(), want)
	}
	yes := func(digest, code string) {
		_, err := c.approvals.DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{ApprovalId: id, Allow: true, ShownDigest: digest})
		if got, _ := codeOf(err); got != code || err != nil && code == "" {
			t.Errorf("%s a yes to %s: %v, want %q", what, digest, err, code)
		}
	}
	// The stale vote comes first, because the other vote decides the approval.
	if stands {
		yes(before.GetCallDigest(), "DIGEST_MISMATCH")
	}
	yes(want, "")
	if _, err := os.Stat(filepath.Join(d.Workspace, file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s the call ran by itself: %v", what, err)
	}
	return killed, stands
}

// editsOf returns the edits of one approval from the journal of a stopped palyrad: the edits of
// the record and of the call.
func (d *daemon) editsOf(id string) (amended []approval.AmendedPayload, calls []record.Edited) {
	d.T.Helper()
	db := must.Get(sqlite.OpenReadOnly(d.T.Context(), d.store()))(d.T)
	defer func() { must.Check(d.T, db.Close(d.T.Context())) }()
	must.Check(d.T, db.Scan(d.T.Context(), 0, db.Head().Seq, func(e *journal.Event) error {
		switch e.Code {
		case event.Amended:
			var p approval.AmendedPayload
			err := json.Unmarshal(e.Payload, &p)
			if p.ApprovalID == id {
				amended = append(amended, p)
			}
			return err
		case event.Edited:
			var p record.Edited
			err := json.Unmarshal(e.Payload, &p)
			if p.ApprovalID == id {
				calls = append(calls, p)
			}
			return err
		}
		return nil
	}))
	return amended, calls
}

// TestEditThatIsNotKilled is the control: without a kill, the edited call runs after its approval,
// and the proposed one does not.
func TestEditThatIsNotKilled(t *testing.T) {
	t.Parallel()
	d := start(t)
	c := d.dial()
	asked, done := make(chan string, 1), make(chan reply, 1)
	c.asked = asked
	go func() { done <- c.write(t.Context(), "control", false) }()
	id := <-asked
	before := must.Get(c.approvals.GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(t).GetApproval()
	after := must.Get(c.approvals.EditApproval(t.Context(), &palyrav1.EditApprovalRequest{
		ApprovalId: id, Version: before.GetVersion(), ShownDigest: before.GetCallDigest(), InputJson: []byte(`{"path":"control","content":"something else\n"}`),
	}))(t).GetApproval()
	must.Do(t, c.allow(t.Context(), after))
	if r := <-done; r.err != nil || r.outcome != "succeeded" {
		t.Errorf("%+v", r)
	}
	if text := string(must.Get(os.ReadFile(filepath.Join(d.Workspace, "control")))(t)); text != "something else\n" {
		t.Errorf("it wrote %q", text)
	}
	if code, out, msg := d.cli("journal", "verify"); code != 0 {
		t.Errorf("journal verify exits %d\n%s%s", code, out, msg)
	}
	d.Stop()
}
