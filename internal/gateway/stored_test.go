package gateway

import (
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/store/sqlite"
)

// The largest result that the configuration permits can be stored.
func TestResultsCanBeStored(t *testing.T) {
	t.Parallel()
	if config.MaxResult != sqlite.MaxBlob {
		t.Errorf("results may have %d bytes, and blobs %d", config.MaxResult, sqlite.MaxBlob)
	}
}
