package sqlite_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

func TestSecretStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	vaulttest.RunStore(t, sqlite.NewSecrets(db), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code BETWEEN ?1 AND ?2", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.SecretPut, event.SecretEnded)
		}))
		return n
	})
}

// anybody permits everything.
type anybody struct{}

func (anybody) Permit(vault.Borrower, access.Permission, vault.Ref) error { return nil }

// TestManySecrets lists 10,000 secrets in pages, rekeys them, and finds all of them.
func TestManySecrets(t *testing.T) {
	t.Parallel()
	const n, size = 10_000, 500
	db := sqlitetest.Open(t)
	store := sqlite.NewSecrets(db)
	s := must.Get(vault.New(vault.Config{Store: store, Keys: vault.NewWrapper(vaulttest.NewKeys(), store), Judge: anybody{}}))(t)
	ann := access.Caller{Principal: access.User("ann")}
	var group sync.WaitGroup
	for part := range 50 {
		group.Go(func() {
			for i := part; i < n; i += 50 {
				ref := vault.Ref{Scope: "global", Key: fmt.Sprintf("k%05d", i)}
				if _, err := s.Put(t.Context(), ann, ref, []byte(ref.Key), vault.Metadata{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	done := must.Get(s.Keys.Rekey(t.Context(), ann))(t)
	if done.Rewrapped != n || len(done.Dropped) != 1 {
		t.Errorf("rekeyed %+v", done)
	}
	pages, seen := 0, 0
	for p := (vault.Page{Limit: size}); ; pages++ {
		list := must.Get(s.List(t.Context(), ann, p))(t)
		for _, m := range list {
			if want := fmt.Sprintf("k%05d", seen); m.Ref.Key != want || m.Unreadable != nil {
				t.Fatalf("entry %d is %+v", seen, m)
			}
			seen++
		}
		if len(list) < size {
			break
		}
		p.After = list[size-1].Ref
	}
	if seen != n || pages != n/size {
		t.Errorf("%d secrets on %d pages", seen, pages)
	}
	value, _, err := s.Reveal(t.Context(), ann, vault.Ref{Scope: "global", Key: "k07777"}, 0)
	if err != nil || string(value) != "k07777" {
		t.Errorf("%q, %v", value, err)
	}
}

// The latest journal event of a secret is found by its index, without reading its uses.
func TestLastEventsUseTheirIndex(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	for _, query := range []string{sqlite.OneSecret, sqlite.ManySecrets} {
		steps := must.Get(sqlite.Plan(db, query))(t)
		if !slices.ContainsFunc(steps, func(s string) bool {
			return strings.Contains(s, "SEARCH events USING INDEX events_secrets (subject=?)")
		}) {
			t.Errorf("%q", steps)
		}
	}
}
