package toolcalltest_test

import (
	"testing"

	"palyra/internal/toolcall"
	"palyra/internal/toolcall/toolcalltest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	toolcalltest.RunLedger(t, func(*testing.T) toolcall.Ledger { return toolcalltest.NewMemory() })
	toolcalltest.RunAttestations(t, func(*testing.T) toolcalltest.Archive { return toolcalltest.NewMemory() })
}
