package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/ops/audit"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// stored is an audit journal on a store.
type stored struct {
	audit.Journal
	db *sqlite.DB
}

func (s stored) Append(ctx context.Context, drafts ...event.Draft) ([]journal.Event, error) {
	return s.db.Append(ctx, drafts...)
}

// TestDayOfUnauthenticatedRefusals: a day of refusals of the largest number of sources adds at most
// 20 MiB to the store. The names have about the maximum length.
func TestDayOfUnauthenticatedRefusals(t *testing.T) {
	t.Parallel()
	db := sqlitetest.OpenMigrated(t, filepath.Join(t.TempDir(), "palyra.db"), sqlite.Options{})
	size := func() (bytes int64) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)", func(r *sqlite.Row) error {
				bytes = r.Int64(0)
				return nil
			})
		}))
		return bytes
	}
	const minutes, day, most = 100, 24 * 60, 20 << 20
	was := size()
	for minute := range minutes {
		a := audit.New(stored{db: db}, slog.New(slog.DiscardHandler))
		for i := range 100 {
			for range 10 {
				a.Refused(t.Context(), fmt.Sprintf("2001:db8:%x:1%03x::1", minute, i), "/palyra.v1.IdentityService/RenewCertificate", reason.Unauthenticated)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		must.Do(t, a.Run(ended)) // writes the counts
	}
	if grown := (size() - was) / minutes * day; grown > most {
		t.Errorf("a day of strangers takes %d bytes, at most %d should be", grown, most)
	} else {
		t.Logf("a day takes %d bytes", grown)
	}
}
