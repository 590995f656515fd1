package runs_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGolden compares the output of every listing and page in every format.
func TestGolden(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"runs_list": {"runs", "list"},
	})
}
