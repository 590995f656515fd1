package sqlite_test

import (
	"testing"

	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/token/tokentest"
)

func TestTokenStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	tokentest.RunStore(t, db.Tokens(), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code IN (?1, ?2)", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.TokenMade, event.TokenRevoked)
		}))
		return n
	})
}
