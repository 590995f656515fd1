package approval_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/core/must"
)

// watch collects the records that a watcher receives until the test ends.
func watch(t *testing.T, d *approval.Desk, after int64) <-chan approval.Record {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	records, ended := make(chan approval.Record, 100), make(chan error, 1)
	go func() {
		ended <- d.Records.Watch(ctx, after, nil, func(r approval.Record) error { records <- r; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("watching ended with %v", err)
		}
	})
	return records
}

func wantSeen(t *testing.T, records <-chan approval.Record, want ...string) (last approval.Record) {
	t.Helper()
	synctest.Wait()
	for _, state := range want {
		select {
		case last = <-records:
			if got := last.ID + " " + string(last.State); got != state {
				t.Errorf("saw %s, want %s", got, state)
			}
		default:
			t.Fatalf("saw nothing, want %s", state)
		}
	}
	select {
	case rec := <-records:
		t.Errorf("saw %s %s beside", rec.ID, rec.State)
	default:
	}
	return last
}

// TestWatchDeliversEveryEventOnceOpened: a record that changes between the opening of the watch
// and its first record is delivered, even if it is no longer open.
func TestWatchDeliversEveryEventOnceOpened(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		_, rec := waiting(t, d)
		seen := errors.New("seen")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := d.Records.Watch(ctx, 0, func() error {
			decide(t, d, alice, rec.ID, no)
			return nil
		}, func(r approval.Record) error {
			if r.ID != rec.ID || r.State != approval.Denied {
				t.Errorf("saw %s %s", r.ID, r.State)
			}
			return seen
		})
		if !errors.Is(err, seen) {
			t.Error(err)
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d := approvaltest.NewDesk(t)
		_, closed := waiting(t, d)
		decide(t, d, alice, closed.ID, no)
		_, first := waiting(t, d, otherArguments)
		records := watch(t, d.Desk, 0)
		seen := wantSeen(t, records, first.ID+" pending")
		if seen.Waiters != 1 {
			t.Errorf("%d waiters", seen.Waiters)
		}
		_, second := waiting(t, d, otherSession, otherArguments)
		wantSeen(t, records, second.ID+" pending")
		decide(t, d, alice, first.ID, no)
		wantSeen(t, records, first.ID+" denied")
		decide(t, d, alice, second.ID, yes)
		wantSeen(t, records, second.ID+" allowed")

		// The watcher resumes after the first record, like a client that lost its connection.
		resumed := watch(t, d.Desk, seen.Revision)
		wantSeen(t, resumed, first.ID+" denied", second.ID+" allowed")
	})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	for n := range 5 {
		waiting(t, d, numbered(n, "r"))
	}
	seen := map[string]bool{}
	f := approval.Filter{PageSize: 2}
	for range 3 {
		page, next, err := d.Records.List(t.Context(), f)
		must.Do(t, err)
		for _, r := range page {
			seen[r.ID] = true
		}
		f.PageToken = next
	}
	if len(seen) != 5 || f.PageToken != "" {
		t.Errorf("saw %d, next %q", len(seen), f.PageToken)
	}
	if _, _, err := d.Records.List(t.Context(), approval.Filter{PageToken: "x' OR 1=1"}); err == nil {
		t.Error("a forged page token was accepted")
	}
}

// whole returns the unrestricted view of a record.
func whole(r approval.Record) approval.Record { return r }

func TestExport(t *testing.T) {
	t.Parallel()
	d := approvaltest.NewDesk(t)
	for n := range 3 {
		waiting(t, d, numbered(n, "r"))
	}
	var out bytes.Buffer
	trailer := must.Get(d.Records.Export(t.Context(), approval.Filter{}, whole, func(line []byte) error {
		_, err := out.Write(line)
		return err
	}))(t)
	check := func(lines [][]byte) approval.Trailer {
		tally := approval.NewTally()
		for _, line := range lines {
			tally.Add(line)
		}
		return tally.Trailer(trailer.Revision)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(out.Bytes(), nil), []byte("\n"))
	lines = lines[:len(lines)-1]
	if got := check(lines); got != trailer || trailer.Records != 3 {
		t.Errorf("the lines give %+v, the trailer says %+v", got, trailer)
	}
	if got := check(lines[:2]); got.Digest == trailer.Digest {
		t.Error("a truncated export has the same digest")
	}
	lines[1] = bytes.Replace(lines[1], []byte("pending"), []byte("allowed"), 1)
	if got := check(lines); got.Digest == trailer.Digest {
		t.Error("a changed export has the same digest")
	}
	short := must.Get(d.Records.Export(t.Context(), approval.Filter{}, func(r approval.Record) approval.Record {
		r.Prompt = approval.Prompt{}
		return r
	}, func(line []byte) error {
		if bytes.Contains(line, []byte("echo")) {
			t.Errorf("exported a line that the view leaves out: %s", line)
		}
		return nil
	}))(t)
	if short.Digest == trailer.Digest || short.Records != 3 {
		t.Errorf("the trailer of a view is %+v", short)
	}
	boom := errors.New("boom")
	if _, err := d.Records.Export(t.Context(), approval.Filter{}, whole, func([]byte) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("the callback's error came back as %v", err)
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	allowedMoves := map[string]bool{
		"pending>pending": true, "pending>allowed": true, "pending>denied": true, "pending>expired": true, "pending>cancelled": true,
		"allowed>consumed": true, "allowed>revoked": true, "allowed>expired": true,
	}
	store := approvaltest.NewStore(t)
	for _, from := range approval.States {
		for _, to := range approval.States {
			id := fmt.Sprintf("%s>%s", from, to)
			must.Do(t, store.Update(t.Context(), func(tx approval.Tx) error {
				return tx.InsertRecord(&approval.Record{ID: id, State: from, Version: 3, CreatedAt: time.Now().UTC()})
			}))
			move := func(version int64) error {
				return store.Update(t.Context(), func(tx approval.Tx) error {
					_, err := approval.Transition(tx, approval.NewStep(id, from, version, to))
					return err
				})
			}
			if err := move(2); err == nil {
				t.Errorf("%s > %s from a stale version went through", from, to)
			}
			want := allowedMoves[id]
			if err := move(3); (err == nil) != want {
				t.Errorf("%s > %s: %v, legal is %v", from, to, err, want)
			}
		}
	}
}
