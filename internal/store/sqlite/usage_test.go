package sqlite_test

import (
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/limit/limittest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	limittest.RunStore(t, func(t *testing.T) limit.Store { return sqlite.NewUsage(sqlitetest.Open(t)) })
}
