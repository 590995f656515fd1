package sqlite_test

import (
	"testing"

	"palyra/internal/event"
	"palyra/internal/identity/identitytest"
	"palyra/internal/must"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
)

func TestIdentityStore(t *testing.T) {
	db := sqlitetest.Open(t)
	identitytest.RunStore(t, db.Identity(), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code = ?1", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.MemberAdded)
		}))
		return n
	})
}
