package calltest_test

import (
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/calltest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	calltest.RunLedger(t, func(*testing.T) call.Ledger { return calltest.NewMemory() })
	calltest.RunAttestations(t, func(*testing.T) calltest.Archive { return calltest.NewMemory() })
}
