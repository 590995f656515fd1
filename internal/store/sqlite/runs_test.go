package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/run"
	"palyra/internal/run/runtest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	runtest.RunStore(t, func(t *testing.T, now func() time.Time) run.Store {
		return sqlite.NewRuns(sqlitetest.OpenAt(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{Now: now}))
	})
}

// A page of any listing comes out of an index in its order: with a hundred
// thousand runs, nothing is sorted and nothing is read to be passed over.
func TestListingRunsNeedsNoSort(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	for name, f := range map[string]run.Filter{
		"all":       {},
		"state":     {States: []run.State{run.Running}},
		"principal": {Principal: access.Agent("coder")},
		"user":      {Principal: access.User("alice")},
		"both":      {Principal: access.User("alice"), States: []run.State{run.Running}},
		"times":     {Since: time.Unix(1, 0), Until: time.Unix(2, 0)},
		"session":   {Session: "s"},
		"next page": {Principal: access.User("alice"), PageToken: "01JRRRRRRRRRRRRRRRRRR00001"},
	} {
		steps := must.Get(sqlite.RunsPlan(db, f))(t)
		plan := strings.Join(steps, "; ")
		if strings.Contains(plan, "TEMP B-TREE") || name != "all" && !strings.Contains(plan, "USING IN") {
			t.Errorf("%s: %s", name, plan)
		}
	}
}

// A store of schema version 6 keeps what it has and takes runs.
func TestMigrationAddsRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	must.Do(t, sqlite.MakeOld(path, 6, func(c *sqlite.Conn) error {
		return c.Query("INSERT INTO claims (principal, key, digest, proposal_id, at) VALUES ('agent:a', 'k', 'd', 'p', 1)", nil)
	}))
	db := sqlitetest.OpenAt(t, path, sqlite.Options{})
	r := run.Record{ID: "01JRRRRRRRRRRRRRRRRRR00001", State: run.Running, Principal: coder, OnBehalfOf: access.User("alice")}
	if _, fresh, err := sqlite.NewRuns(db).Begin(t.Context(), run.Beginning{Record: r}); err != nil || !fresh {
		t.Fatalf("beginning a run: fresh %t, %v", fresh, err)
	}
	kept := 0
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT key FROM claims", func(*sqlite.Row) error { kept++; return nil })
	})
	if err != nil || kept != 1 {
		t.Errorf("%d old rows are there, %v", kept, err)
	}
}
