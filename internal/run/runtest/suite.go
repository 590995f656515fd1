// Package runtest is the conformance suite of run stores.
package runtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
)

// RunStore is the conformance suite of run.Store. A nil clock is time.Now.
func RunStore(t *testing.T, newStore func(t *testing.T, now func() time.Time) run.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, func(*testing.T, func() time.Time) run.Store)
	}{
		{"a row commits with its events", rows},
		{"keys are of one principal for a day", keys},
		{"listings choose", listing},
		{"a write is all or nothing", allOrNothing},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore) })
	}
}

func runID(n int) string { return fmt.Sprintf("01JRRRRRRRRRRRRRRRRRR%05d", n) }

// aRun returns a run of an agent that acts for a user.
func aRun(n int, user string) run.Record {
	return run.Record{
		ID: runID(n), State: run.Running, Principal: access.Agent("coder-" + user), OnBehalfOf: access.User(user),
		Device: "d1", Session: "d1.default", Model: "m", Workspace: "w", Message: "task", Interactive: true,
		Budget: run.Budget{Calls: 3, Tokens: 1 << 40, WallClock: 90 * time.Minute},
	}
}

func runWrite(r run.Record, code event.Code, blobs ...[]byte) run.Write {
	return run.Write{Blobs: blobs, Drafts: []event.Draft{{
		Code: code, Session: r.Session, Run: r.ID, Actor: r.Principal.String(), Subject: r.ID, Payload: []byte(`{}`),
	}}}
}

func beginRun(t *testing.T, s run.Store, b run.Beginning) run.Record {
	t.Helper()
	b.Write = runWrite(b.Record, event.RunStarted)
	r, fresh, err := s.Begin(t.Context(), b)
	if err != nil || !fresh {
		t.Fatalf("beginning %s: fresh %t, %v", b.Record.ID, fresh, err)
	}
	return r
}

func rows(t *testing.T, newStore func(*testing.T, func() time.Time) run.Store) {
	s := newStore(t, nil)
	want := aRun(1, "alice")
	got := beginRun(t, s, run.Beginning{Record: want})
	started := lastEvent(t, s)
	if want.StartedAt = started.At; got != want || started.Code != event.RunStarted {
		t.Errorf("stored %+v at %s, want %+v", got, started.Code, want)
	}
	if stored, err := s.Get(t.Context(), want.ID); err != nil || stored != want {
		t.Errorf("the row is %+v, %v, want %+v", stored, err, want)
	}
	want.State, want.Reason, want.Detail, want.Remedy = run.Cancelled, reason.Cancelled, "enough", "again"
	want.CancelledBy, want.Usage = access.User("alice"), run.Usage{Calls: 1, InputTokens: 2, OutputTokens: 3, Turns: 4}
	got, err := s.End(t.Context(), want, runWrite(want, event.RunFinished, []byte("blob")))
	finished := lastEvent(t, s)
	if want.EndedAt = finished.At; err != nil || got != want || finished.Code != event.RunFinished {
		t.Errorf("ended as %+v, %v, want %+v", got, err, want)
	}
	if stored, err := s.Get(t.Context(), want.ID); err != nil || stored != want {
		t.Errorf("the row is %+v, %v, want %+v", stored, err, want)
	}
	head := s.Head().Seq
	if _, err := s.End(t.Context(), want, runWrite(want, event.RunFinished)); reason.Of(err) != reason.RunEnded {
		t.Errorf("the second end: %v", err)
	}
	if _, err := s.End(t.Context(), aRun(2, "alice"), runWrite(want, event.RunFinished)); reason.Of(err) != reason.NotFound {
		t.Errorf("the end of nothing: %v", err)
	}
	if s.Head().Seq != head {
		t.Error("an end that was refused is on record")
	}
}

func lastEvent(t *testing.T, s run.Store) journal.Event {
	t.Helper()
	page, err := s.Events(t.Context(), journal.Filter{Newest: true, Limit: 1})
	if err != nil || len(page) != 1 {
		t.Fatalf("the last event: %v", err)
	}
	return page[0]
}

func keys(t *testing.T, newStore func(*testing.T, func() time.Time) run.Store) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newStore(t, func() time.Time { return now })
	first := beginRun(t, s, run.Beginning{Record: aRun(1, "alice"), Key: "k", Digest: "d"})
	head := s.Head().Seq
	got, fresh, err := s.Begin(t.Context(), run.Beginning{Record: aRun(2, "alice"), Key: "k", Digest: "d", Write: runWrite(aRun(2, "alice"), event.RunStarted)})
	if err != nil || fresh || got != first {
		t.Errorf("the retry got %s, fresh %t, %v", got.ID, fresh, err)
	}
	if got, found, err := s.Started(t.Context(), run.Beginning{Record: aRun(2, "alice"), Key: "k", Digest: "d"}); err != nil || !found || got != first {
		t.Errorf("the key has %s, found %t, %v", got.ID, found, err)
	}
	if _, _, err := s.Started(t.Context(), run.Beginning{Record: aRun(2, "alice"), Key: "k", Digest: "other"}); reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("the key asked for with another task: %v", err)
	}
	for _, b := range []run.Beginning{{Record: aRun(3, "bob"), Key: "k", Digest: "d"}, {Record: aRun(3, "alice"), Digest: "d"}} {
		if got, found, err := s.Started(t.Context(), b); err != nil || found {
			t.Errorf("key %q of %s has run %s, %v", b.Key, b.Record.Principal, got.ID, err)
		}
	}
	_, _, err = s.Begin(t.Context(), run.Beginning{Record: aRun(2, "alice"), Key: "k", Digest: "other", Write: runWrite(aRun(2, "alice"), event.RunStarted)})
	if reason.Of(err) != reason.IdempotencyMismatch {
		t.Errorf("another run with the key: %v", err)
	}
	if s.Head().Seq != head {
		t.Error("a retry was recorded as a start")
	}
	beginRun(t, s, run.Beginning{Record: aRun(3, "bob"), Key: "k", Digest: "other"})
	beginRun(t, s, run.Beginning{Record: aRun(4, "alice"), Digest: "d"})
	beginRun(t, s, run.Beginning{Record: aRun(5, "alice"), Digest: "d"})
	now = now.Add(call.ClaimLife + time.Second)
	if _, found, err := s.Started(t.Context(), run.Beginning{Record: aRun(6, "alice"), Key: "k", Digest: "other"}); found || err != nil {
		t.Errorf("a day later the key is known: %t, %v", found, err)
	}
	again := beginRun(t, s, run.Beginning{Record: aRun(6, "alice"), Key: "k", Digest: "other"})
	got, fresh, err = s.Begin(t.Context(), run.Beginning{Record: aRun(7, "alice"), Key: "k", Digest: "other", Write: runWrite(aRun(7, "alice"), event.RunStarted)})
	if err != nil || fresh || got != again {
		t.Errorf("a day later the retry got %s, fresh %t, %v", got.ID, fresh, err)
	}
}

func listing(t *testing.T, newStore func(*testing.T, func() time.Time) run.Store) {
	s := newStore(t, nil)
	var times []time.Time
	for n := range 7 {
		r := aRun(n, []string{"alice", "bob"}[n%2])
		r.Session = fmt.Sprint("s", n%3)
		r = beginRun(t, s, run.Beginning{Record: r})
		times = append(times, r.StartedAt)
		if n >= 2 {
			r.State = []run.State{run.Completed, run.Failed}[n%2]
			must.Get(s.End(t.Context(), r, runWrite(r, event.RunFinished)))(t)
		}
	}
	for name, c := range map[string]struct {
		filter run.Filter
		want   []int
	}{
		"all":          {run.Filter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		"running":      {run.Filter{States: []run.State{run.Running}}, []int{1, 0}},
		"two states":   {run.Filter{States: []run.State{run.Running, run.Failed}}, []int{5, 3, 1, 0}},
		"of an agent":  {run.Filter{Principal: access.Agent("coder-bob")}, []int{5, 3, 1}},
		"for a user":   {run.Filter{Principal: access.User("bob")}, []int{5, 3, 1}},
		"of both":      {run.Filter{Principal: access.Agent("coder-bob"), Of: access.User("bob")}, []int{5, 3, 1}},
		"of neither":   {run.Filter{Principal: access.Agent("coder-bob"), Of: access.User("alice")}, nil},
		"of a session": {run.Filter{Session: "s1"}, []int{4, 1}},
		"since":        {run.Filter{Since: times[5]}, []int{6, 5}},
		"until":        {run.Filter{Until: times[2]}, []int{1, 0}},
		"nobody":       {run.Filter{Principal: access.User("eve")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for c.filter.PageSize = 2; ; {
				page, next, err := s.List(t.Context(), c.filter)
				if err != nil || len(page) > 2 {
					t.Fatalf("a page of %d, %v", len(page), err)
				}
				for _, r := range page {
					got = append(got, slices.IndexFunc(times, r.StartedAt.Equal))
				}
				if c.filter.PageToken = next; next == "" {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("listed %v, want %v", got, c.want)
			}
		})
	}
}

func allOrNothing(t *testing.T, newStore func(*testing.T, func() time.Time) run.Store) {
	s := newStore(t, nil)
	r := aRun(1, "alice")
	head := s.Head().Seq
	large := make([]byte, call.MaxBlob+1)
	_, _, err := s.Begin(t.Context(), run.Beginning{Record: r, Write: runWrite(r, event.RunStarted, []byte("small"), large)})
	if reason.Of(err) != reason.InputTooLarge {
		t.Errorf("a blob that is too large: %v", err)
	}
	if _, err := s.Get(t.Context(), r.ID); reason.Of(err) != reason.NotFound {
		t.Errorf("the row: %v", err)
	}
	if err := s.Append(t.Context(), runWrite(r, event.UserMessage, large)); err == nil {
		t.Error("an event without its blob was stored")
	}
	if s.Head().Seq != head {
		t.Error("something of it is on record")
	}
	must.Do(t, s.Append(t.Context(), runWrite(r, event.UserMessage, []byte("x"))))
}
