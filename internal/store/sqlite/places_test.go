package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// placedFilters returns filters whose results cross the ends of tiles, at 256 and 512, and the
// end of the last complete tile.
func placedFilters(all []journal.Event) []journal.Filter {
	chosen := []journal.Filter{
		{Code: "PAL-A"}, {Code: "PAL-D"}, {Code: "PAL-D1"}, {Code: "PAL-A100"}, {Code: "PAL"}, {Code: "PAL-Z"},
		{Actor: "user:alice"}, {Actor: "user:nobody"}, {Actor: "user:alice", Code: "PAL-D"}, {Actor: "user:alice", Code: "PAL-D102"},
	}
	ranges := []journal.Filter{
		{}, {After: 255}, {After: 256}, {After: 257}, {After: 600}, {After: 700}, {UpTo: 255}, {UpTo: 256}, {UpTo: 257}, {UpTo: 512}, {UpTo: 600}, {UpTo: 1},
		{After: 250, UpTo: 260}, {After: 510, UpTo: 515}, {Since: all[300].At}, {Until: all[300].At}, {Since: all[200].At, Until: all[530].At}, {Since: all[len(all)-1].At.Add(time.Hour)},
	}
	var filters []journal.Filter
	for _, c := range chosen {
		for _, r := range ranges {
			for _, limit := range []int{0, 1, 7, 60} {
				for _, newest := range []bool{false, true} {
					f := r
					f.Code, f.Actor, f.Limit, f.Newest = c.Code, c.Actor, limit, newest
					filters = append(filters, f)
				}
			}
		}
	}
	return filters
}

func assertPlaced(t *testing.T, db *sqlite.DB, all []journal.Event) {
	t.Helper()
	for _, f := range placedFilters(all) {
		got, err := db.Events(t.Context(), f)
		if want := expect(all, f); err != nil || fmt.Sprint(numbers(got)) != fmt.Sprint(numbers(want)) {
			t.Fatalf("%+v: %v, %v, want %v", f, numbers(got), err, numbers(want))
		}
	}
}

func numbers(events []journal.Event) (seqs []int64) {
	for _, e := range events {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// TestFiltersByIndex: filters by code and actor that use the index find the same events as reading
// all.
func TestFiltersByIndex(t *testing.T) {
	t.Parallel()
	db, all := filterStoreOf(t, 700)
	assertCount(t, db, "SELECT count(DISTINCT n) FROM event_places", 2)
	assertPlaced(t, db, all)
}

// TestIndexIsUsed: no filter by code or actor reads the events of a complete tile, and the index is
// searched only by its key.
func TestIndexIsUsed(t *testing.T) {
	t.Parallel()
	db, all := filterStoreOf(t, 700)
	for _, f := range []journal.Filter{{Code: "PAL-A"}, {Actor: "user:alice", Newest: true}, {Code: "PAL-Z", Since: all[300].At}} {
		plan := must.Get(sqlite.PlacesPlan(db, f))(t)
		if len(plan) != 1 || plan[0] != "SEARCH event_places USING PRIMARY KEY (n>? AND n<?)" {
			t.Errorf("%+v: %q", f, plan)
		}
	}
	// Control: without its places, the events of a tile are not found, so the places are used. The
	// events after the last tile are read directly.
	must.Do(t, sqlite.Exec(db, "DELETE FROM event_places WHERE n = 0"))
	got := must.Get(db.Events(t.Context(), journal.Filter{Actor: "user:alice"}))(t)
	if len(got) == 0 || got[0].Seq <= journal.TileWidth || got[len(got)-1].Seq <= 2*journal.TileWidth {
		t.Errorf("found %v", numbers(got))
	}
}

// TestWrongIndexEntries: an index entry with the wrong event is reported as damage.
func TestWrongIndexEntries(t *testing.T) {
	t.Parallel()
	db, _ := filterStoreOf(t, 300)
	must.Do(t, sqlite.Exec(db, "UPDATE event_places SET places = X'01' WHERE actor = 'user:alice'"))
	_, err := db.Events(t.Context(), journal.Filter{Actor: "user:alice"})
	if err == nil || !strings.Contains(err.Error(), "it is not there") {
		t.Errorf("error %v", err)
	}
}

// TestVerifyChecksTheIndex: an index entry that is missing, has another code or lacks an event
// hides events from filters. Answers cannot show this; the verification does.
func TestVerifyChecksTheIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string
		fine   bool
	}{
		"untouched":                         {"SELECT 1", true},
		"the newest tile is not listed yet": {"DELETE FROM event_places WHERE n = (SELECT max(n) FROM event_places)", true},
		"an entry is missing":               {"DELETE FROM event_places WHERE n = 1 AND actor = 'user:alice'", false},
		"a tile is missing":                 {"DELETE FROM event_places WHERE n = 0", false},
		"another code":                      {"UPDATE event_places SET code = code || 'x' WHERE n = 1 AND actor = 'user:alice'", false},
		"short of an event":                 {"UPDATE event_places SET places = substr(places, 2) WHERE n = 1 AND actor = 'user:alice'", false},
		"an entry more":                     {"INSERT INTO event_places (n, code, actor, places) VALUES (0, 'PAL-X999', 'user:mallory', X'00')", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "palyra.db")
			signer, known := sqlitetest.Key(t)
			db := must.Get(sqlite.Open(t.Context(), path, sqlite.Options{Verifiers: known, Origin: sqlitetest.Origin}))(t)
			for n := range 800 {
				d := draft(n)
				if n%7 == 0 {
					d.Actor = "user:alice"
				}
				mustAppend(t, db, d)
			}
			checkpointAll(t, db, signer)
			must.Do(t, sqlite.Exec(db, c.change))
			must.Do(t, db.Close(t.Context()))
			_, err := sqlite.Verify(t.Context(), path, sqlitetest.Origin, known)
			var corrupt *journal.CorruptError
			if c.fine != (err == nil) || !c.fine && !errors.As(err, &corrupt) {
				t.Errorf("the verification says %v", err)
			}
		})
	}
}

// TestIndexOfOlderStores: the store of an older release is read without the index, and gets it
// with the migration. TestIndexAfterARollback: the in-memory state of a unit that was rolled
// back is not stored.
func TestIndexAfterARollback(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	other := func(n int, actor string) event.Draft {
		d := draft(n)
		d.Actor = actor
		return d
	}
	for n := range 250 {
		mustAppend(t, db, other(n, "user:ada"))
	}
	// Ten events of a failed unit temporarily extend past the end of the tile.
	lost := errors.New("lost")
	var gone []event.Draft
	for n := range 10 {
		gone = append(gone, other(n, "user:mallory"))
	}
	_, err := db.Commit(t.Context(), sqlite.Unit{Check: func(tx *sqlite.Tx) error { tx.Emit(gone...); return lost }})
	if !errors.Is(err, lost) {
		t.Fatal(err)
	}
	must.Do(t, sqlite.Exec(db, "CREATE TEMP TRIGGER full BEFORE INSERT ON events WHEN new.actor = 'user:mallory' AND new.seq = 255 BEGIN SELECT RAISE(ABORT, 'full'); END"))
	if _, err := db.Append(t.Context(), gone...); err == nil {
		t.Fatal("the unit was not rolled back")
	}
	must.Do(t, sqlite.Exec(db, "DROP TRIGGER full"))
	for n := range 20 {
		mustAppend(t, db, other(n, "user:bob"))
	}
	for actor, want := range map[string]int{"user:ada": 250, "user:mallory": 0, "user:bob": 20} {
		if got := must.Get(db.Events(t.Context(), journal.Filter{Actor: actor}))(t); len(got) != want {
			t.Errorf("%s: %v", actor, numbers(got))
		}
	}
	assertCount(t, db, "SELECT sum(length(places)) FROM event_places", journal.TileWidth)
}
