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

// A page of any listing is read from an index in its order. With a hundred thousand runs, no
// row is sorted or skipped.
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
