package gateway

import (
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/store/sqlite"
)

// What the configuration lets a result hold can be stored.
func TestResultsCanBeStored(t *testing.T) {
	t.Parallel()
	if config.MaxResult != sqlite.MaxBlob {
		t.Errorf("results may have %d bytes, and blobs %d", config.MaxResult, sqlite.MaxBlob)
	}
}
