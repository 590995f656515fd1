package sqlite_test

import (
	"testing"

	"palyra/internal/attest"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/toolcall"
	"palyra/internal/toolcall/toolcalltest"
)

func TestAttestations(t *testing.T) {
	toolcalltest.RunAttestations(t, func(t *testing.T) toolcalltest.Archive {
		db := sqlitetest.Open(t)
		return struct {
			toolcall.Ledger
			attest.Store
		}{sqlite.NewCalls(db), db}
	})
}
