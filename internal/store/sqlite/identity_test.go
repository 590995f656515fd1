package sqlite_test

import (
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/identity/identitytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestIdentityStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	identitytest.RunStore(t, sqlite.NewIdentity(db), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code = ?1", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.MemberAdded)
		}))
		return n
	})
}

// TestOlderDeviceHasItsKey: a device of an older release has exactly its one key, in use.
