package sqlite_test

import (
	"testing"

	"palyra/internal/quota"
	"palyra/internal/quota/quotatest"
	"palyra/internal/sqlite/sqlitetest"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	quotatest.RunStore(t, func(t *testing.T) quota.Store { return sqlitetest.Open(t) })
}
