package approval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// race runs all functions concurrently and returns how many succeeded. Each of the others must
// return a conflict with one of the reasons.
func race(t *testing.T, losses []reason.Code, contenders ...func() error) (winners int) {
	t.Helper()
	var won atomic.Int64
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for _, contender := range contenders {
		wg.Go(func() {
			<-begin
			err := contender()
			if err == nil {
				won.Add(1)
				return
			}
			if !slices.Contains(losses, reason.Of(err)) {
				t.Errorf("a loser got %v (%s)", err, reason.Of(err))
			}
		})
	}
	close(begin)
	wg.Wait()
	return int(won.Load())
}

const rounds = 25

func decider(d *approval.Desk, name, id string, b approval.Ballot) func() error {
	return func() error {
		_, err := d.Votes.Decide(context.Background(), approvaltest.Caller(name), id, b)
		return err
	}
}

func doubleDecide(t *testing.T, d *approval.Desk, round int) int {
	p := approvaltest.Resolve(d, approvaltest.Ask(t, func(a *approval.Ask) { a.Proposal.Run = fmt.Sprint("run", round) }))
	rec := <-p.Records
	var contenders []func() error
	for n := range 16 {
		contenders = append(contenders, decider(d, fmt.Sprint("user", n), rec.ID, approval.Ballot{Allow: n%2 == 0}))
	}
	winners := race(t, []reason.Code{reason.ApprovalConflict}, contenders...)
	<-p.Done
	return winners
}

func TestDoubleDecide(t *testing.T) {
	t.Parallel()
	for round := range rounds {
		d := approvaltest.NewDesk(t)
		if winners := doubleDecide(t, d.Desk, round); winners != 1 {
			t.Fatalf("%d winners", winners)
		}
		if voted, answered := count(d.Store, event.Voted), count(d.Store, event.Answered); voted != 1 || answered != 1 {
			t.Fatalf("%d votes, %d answers journaled", voted, answered)
		}
	}
}

// careless is a store without compare-and-swap: a unit reads each record in its initial state,
// and every write succeeds.
type careless struct {
	*approvaltest.Store

	mu    sync.Mutex
	first map[string]approval.Record
}

type carelessTx struct {
	approval.Tx

	store *careless
}

func (c *careless) Update(ctx context.Context, fn func(approval.Tx) error) error {
	return c.Store.Update(ctx, func(tx approval.Tx) error { return fn(carelessTx{tx, c}) })
}

func (c *careless) Record(_ context.Context, id string) (approval.Record, error) {
	return c.recall(id)
}

func (c *careless) recall(id string) (approval.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rec, ok := c.first[id]; ok {
		return rec, nil
	}
	return approval.Record{}, approval.ErrNotFound
}

func (t carelessTx) InsertRecord(r *approval.Record) error {
	err := t.Tx.InsertRecord(r)
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.store.first[r.ID] = *r
	return err
}

func (t carelessTx) Record(id string) (approval.Record, error) { return t.store.recall(id) }

func (t carelessTx) ReplaceRecord(r *approval.Record, _ approval.State, _ int64) error {
	now, err := t.Tx.Record(r.ID)
	if err != nil {
		return err
	}
	return t.Tx.ReplaceRecord(r, now.State, now.Version)
}

func (t carelessTx) RewriteRecord(r *approval.Record, _ approval.State, _ int64) error {
	now, err := t.Tx.Record(r.ID)
	if err != nil {
		return err
	}
	return t.Tx.RewriteRecord(r, now.State, now.Version)
}

// Negative control: without compare-and-swap, several contenders of the race above succeed.
func TestDoubleDecideWithoutCompare(t *testing.T) {
	t.Parallel()
	store := &careless{Store: approvaltest.NewStore(t), first: map[string]approval.Record{}}
	d := approvaltest.Open(t, store, &approvaltest.Judge{Need: 1}, approval.Limits{})
	if winners := doubleDecide(t, d, 0); winners < 2 {
		t.Fatalf("%d winners: the test cannot see a missing comparison", winners)
	}
}

func TestCancelVersusDecide(t *testing.T) {
	t.Parallel()
	for range rounds {
		d := approvaltest.NewDesk(t)
		p, rec := waiting(t, d)
		owner := approvaltest.Caller("owner")
		winners := race(t, []reason.Code{reason.ApprovalConflict},
			decider(d.Desk, "alice", rec.ID, yes), decider(d.Desk, "bob", rec.ID, no),
			func() error {
				_, err := d.Records.Cancel(context.Background(), owner, rec.ID, "changed my mind")
				return err
			})
		out := <-p.Done
		after, err := d.Records.Get(t.Context(), rec.ID)
		if winners != 1 || err != nil || after.Version != 2 || out.Answer.Allowed() != (after.State == approval.Allowed) {
			t.Fatalf("%d winners, %s v%d, answer %v", winners, after.State, after.Version, out.Answer.Kind())
		}
	}
}

// editVersusDecide edits the call while others approve the displayed version. It returns how
// many of them succeeded first, and the resulting record.
func editVersusDecide(t *testing.T, d *approval.Desk, round int) (winners int, after approval.Record) {
	run := func(a *approval.Ask) { a.Proposal.Run = fmt.Sprint("run", round) }
	p := approvaltest.Resolve(d, approvaltest.Ask(t, run))
	rec := <-p.Records
	editor := func(name, input string) func() error {
		ask := approvaltest.Ask(t, run, func(a *approval.Ask) {
			a.Proposal.Input, a.Plan.Binding.Arguments = json.RawMessage(input), json.RawMessage(input)
		})
		return func() error {
			_, err := d.Edits.Edit(context.Background(), approvaltest.Caller(name), rec.ID, approval.Amendment{
				Version: rec.Version, ShownDigest: rec.CallDigest, Reason: "less", Ask: &ask,
			})
			return err
		}
	}
	shown := approval.Ballot{Allow: true, ShownDigest: rec.CallDigest}
	winners = race(t, []reason.Code{reason.ApprovalConflict, reason.DigestMismatch},
		editor("erin", `{"argv":["make","-n"]}`), editor("frank", `{"argv":["make","-k"]}`),
		decider(d, "alice", rec.ID, shown), decider(d, "bob", rec.ID, shown), decider(d, "carol", rec.ID, shown))
	after = must.Get(d.Records.Get(t.Context(), rec.ID))(t)
	if after.State == approval.Allowed && (len(after.Edits) > 0 || after.CallDigest != rec.CallDigest) {
		t.Errorf("a yes to %s stands on %s", rec.CallDigest, after.CallDigest)
	}
	if after.State == approval.Pending {
		p.Leave(nil)
	}
	<-p.Done
	return winners, after
}

// The first of an edit and a concurrent vote succeeds. No approval covers a version that the
// voter was not shown.
func TestEditVersusDecide(t *testing.T) {
	t.Parallel()
	edited, allowed := 0, 0
	for round := range rounds {
		d := approvaltest.NewDesk(t)
		winners, after := editVersusDecide(t, d.Desk, round)
		amended, voted, answered := count(d.Store, event.Amended), count(d.Store, event.Voted), count(d.Store, event.Answered)
		if winners != 1 || amended+voted != 1 || (after.State == approval.Allowed) != (voted == 1) || amended != len(after.Edits) || answered != 1 && voted == 1 {
			t.Fatalf("%d winners, %s with %d edits, %d amended, %d voted, %d answered", winners, after.State, len(after.Edits), amended, voted, answered)
		}
		edited, allowed = edited+amended, allowed+voted
	}
	t.Logf("the edit won %d times, a vote %d times", edited, allowed)
}

// Negative control: without compare-and-swap both succeed.
func TestEditVersusDecideWithoutCompare(t *testing.T) {
	t.Parallel()
	store := &careless{Store: approvaltest.NewStore(t), first: map[string]approval.Record{}}
	d := approvaltest.Open(t, store, &approvaltest.Judge{Need: 1}, approval.Limits{})
	if winners, _ := editVersusDecide(t, d, 0); winners < 2 {
		t.Fatalf("%d winners: the test cannot see a missing comparison", winners)
	}
}

// The caller may disconnect while an approver decides.
func TestLeaveVersusDecide(t *testing.T) {
	t.Parallel()
	for range rounds {
		d := approvaltest.NewDesk(t)
		p, rec := waiting(t, d)
		var wg sync.WaitGroup
		wg.Go(func() { p.Leave(nil) })
		wg.Go(func() { _ = decider(d.Desk, "alice", rec.ID, yes)() })
		out := <-p.Done
		wg.Wait()
		after, err := d.Records.Get(t.Context(), rec.ID)
		if err != nil || after.Version != 2 || (after.State != approval.Allowed && after.State != approval.Cancelled) {
			t.Fatalf("%s v%d, %v", after.State, after.Version, err)
		}
		if out.Answer.Allowed() && after.State != approval.Allowed {
			t.Fatalf("the call was allowed by a record that is %s", after.State)
		}
	}
}

func TestRevokeVersusConsume(t *testing.T) {
	t.Parallel()
	for range rounds {
		d := approvaltest.NewDesk(t)
		a := allowed(t, d, yes)
		consume := func() error {
			return d.Requests.Consume(context.Background(), a, event.Draft{Code: event.Decided, Actor: "a", Payload: json.RawMessage(`{}`)})
		}
		revoke := func() error {
			_, err := d.Records.Revoke(context.Background(), bob, a.ApprovalID(), "no")
			return err
		}
		winners := race(t, []reason.Code{reason.ApprovalConflict, reason.ApprovalRevoked}, consume, consume, revoke, revoke)
		after, err := d.Records.Get(t.Context(), a.ApprovalID())
		if winners != 1 || err != nil {
			t.Fatalf("%d winners, %v", winners, err)
		}
		if decided := count(d.Store, event.Decided); (decided == 1) != (after.State == approval.Consumed) || decided > 1 {
			t.Fatalf("%s with %d decided events", after.State, decided)
		}
	}
}

func TestDecideVersusExpiry(t *testing.T) {
	t.Parallel()
	for n := range rounds {
		bubble(t, func(t *testing.T) {
			d := approvaltest.NewDesk(t)
			p, rec := waiting(t, d, func(a *approval.Ask) { a.Timeout = time.Minute })
			// The time is just before, at, or just after the deadline.
			time.Sleep(time.Until(rec.ExpiresAt) + time.Duration(n%3-1)*time.Microsecond)
			winners := race(t, []reason.Code{reason.ApprovalConflict},
				decider(d.Desk, "alice", rec.ID, yes), decider(d.Desk, "bob", rec.ID, yes))
			out := <-p.Done
			after, err := d.Records.Get(t.Context(), rec.ID)
			if err != nil || after.Version != 2 || (winners == 1) != (after.State == approval.Allowed) || out.Answer.Allowed() != (winners == 1) {
				t.Fatalf("%d winners, %s v%d, answer %v, %v", winners, after.State, after.Version, out.Answer.Kind(), err)
			}
			if n%3 != 0 && winners != 0 {
				t.Fatal("a vote at or after the deadline won")
			}
		})
	}
}

func TestConcurrentVotersAllCount(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	const voters = 12
	d.Judge.Set(func(j *approvaltest.Judge) { j.Need = voters })
	p, rec := waiting(t, d)
	var contenders []func() error
	for n := range voters {
		contenders = append(contenders, decider(d.Desk, fmt.Sprint("user", n), rec.ID, yes))
	}
	if winners := race(t, nil, contenders...); winners != voters {
		t.Fatalf("%d of %d votes were kept", winners, voters)
	}
	if out := <-p.Done; len(out.Answer.Votes()) != voters || !out.Answer.Allowed() {
		t.Errorf("answer %v with %d votes", out.Answer.Kind(), len(out.Answer.Votes()))
	}
}

// Uses of a grant and its concurrent revocation have one order.
func TestRevokeGrantVersusUse(t *testing.T) {
	t.Parallel()
	for range rounds {
		d := approvaltest.NewDesk(t)
		id := mintGrant(t, d, approval.Ballot{Allow: true, Scope: approval.Session})
		a := must.Get(d.Grants.Answer(t.Context(), id, approvaltest.Ask(t)))(t)
		var used atomic.Int64
		use := func() error {
			err := d.Requests.Consume(context.Background(), a)
			if err == nil {
				used.Add(1)
			}
			return err
		}
		revoke := func() error { _, err := d.Grants.Revoke(context.Background(), bob, id, "no"); return err }
		race(t, []reason.Code{reason.ApprovalRevoked, reason.ApprovalConflict}, use, use, use, revoke, revoke)
		g, err := d.Grants.Get(t.Context(), id)
		if err != nil || g.RevokedAt.IsZero() || g.Uses != used.Load() || count(d.Store, event.GrantRevoked) != 1 {
			t.Fatalf("grant %+v after %d uses, %v", g, used.Load(), err)
		}
		if events := d.Store.Codes(); events[len(events)-1] != event.GrantRevoked {
			t.Fatalf("a use came after the revoke: %v", events)
		}
		if found, _ := d.Grants.Find(t.Context(), approvaltest.Ask(t).Query()); len(found) != 0 {
			t.Fatal("a revoked grant is still offered")
		}
	}
}
