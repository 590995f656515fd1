package sqlite_test

import (
	"testing"

	"palyra/internal/approval/approvaltest"
	"palyra/internal/event"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
)

func TestApprovals(t *testing.T) {
	approvaltest.RunStore(t, func(t *testing.T) approvaltest.Fixture {
		db := sqlitetest.Open(t)
		return approvaltest.Fixture{Store: sqlite.NewApprovals(db), Events: func() []event.Code { return journaled(t, db) }}
	})
}

// journaled returns the codes of the journal in order.
func journaled(t *testing.T, db *sqlite.DB) []event.Code {
	t.Helper()
	var codes []event.Code
	err := db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT code FROM events ORDER BY seq", func(r *sqlite.Row) error {
			codes = append(codes, event.Code(r.Text(0)))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return codes
}
