package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func draft(n int) event.Draft {
	return event.Draft{
		Code: event.Proposed, Session: "s1", Run: fmt.Sprintf("r%d", n%3), Actor: "agent:test",
		Subject: fmt.Sprintf("p%d", n), Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

func TestCommitReturnsTheChainedEvents(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	events := must.Get(db.Commit(t.Context(), sqlite.Unit{
		Events: []event.Draft{draft(1)},
		Check:  func(tx *sqlite.Tx) error { tx.Emit(draft(2)); return nil },
	}))(t)
	if len(events) != 2 || events[0].Seq != 1 || events[1].Seq != 2 {
		t.Fatalf("got %+v, want sequence numbers 1 and 2", events)
	}
	if events[1].PrevHash != events[0].Hash {
		t.Error("the second event does not link to the first")
	}
	if got := db.Head(); got != events[1].Head() {
		t.Errorf("head %+v, want that of the last event", got)
	}
}

var errLost = errors.New("lost the race")

func TestGroupCommitWithFailingAndPanickingChecks(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Do(t, sqlite.NewResults(db).KeepsResults(t.Context()))
	const callers, rounds = 64, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	for c := range callers {
		wg.Go(func() {
			for r := range rounds {
				u := sqlite.Unit{Events: []event.Draft{draft(c*rounds + r)}}
				switch c % 4 {
				case 1:
					u.Check = func(tx *sqlite.Tx) error {
						_, err := sqlite.PutBlob(db, tx, fmt.Appendf(nil, "kept %d %d", c, r))
						return err
					}
				case 2:
					u.Check = func(tx *sqlite.Tx) error {
						_, err := sqlite.PutBlob(db, tx, fmt.Appendf(nil, "lost %d %d", c, r))
						return errors.Join(err, errLost)
					}
				case 3:
					u.Check = func(tx *sqlite.Tx) error { panic("boom") }
				}
				events, err := db.Commit(context.Background(), u)
				mu.Lock()
				checkOutcome(t, c%4, events != nil, err)
				for _, e := range events {
					seen[e.Seq] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	const want = callers / 2 * rounds
	if len(seen) != want || db.Head().Seq != want {
		t.Fatalf("%d sequence numbers, head %d, want %d and no gaps", len(seen), db.Head().Seq, want)
	}
	assertCount(t, db, "SELECT count(*) FROM results", callers/4*rounds)
	if err := db.Healthy(); err != nil {
		t.Errorf("healthy: %v", err)
	}
}

func checkOutcome(t *testing.T, kind int, events bool, err error) {
	t.Helper()
	var p *sqlite.PanicError
	switch {
	case kind < 2 && err != nil, kind == 2 && !errors.Is(err, errLost), kind == 3 && !errors.As(err, &p):
		t.Errorf("kind %d: error %v", kind, err)
	case events != (err == nil):
		t.Errorf("kind %d: events %v together with error %v", kind, events, err)
	}
}

func assertCount(t *testing.T, db *sqlite.DB, query string, want int64) {
	t.Helper()
	var got int64
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		_, err := c.QueryRow(query, func(r *sqlite.Row) error { got = r.Int64(0); return nil })
		return err
	})
	if err != nil || got != want {
		t.Errorf("%s: got %d, %v, want %d", query, got, err, want)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	must.Do(t, db.Close(t.Context()))
	if _, err := db.Commit(t.Context(), sqlite.Unit{Events: []event.Draft{draft(1)}}); reason.Of(err) != reason.ShuttingDown {
		t.Errorf("got %v, want %s", err, reason.ShuttingDown)
	}
}
