package sqlite_test

import (
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/identity/token/tokentest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestTokenStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	tokentest.RunStore(t, sqlite.NewTokens(db), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code IN (?1, ?2)", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.TokenMade, event.TokenRevoked)
		}))
		return n
	})
}
