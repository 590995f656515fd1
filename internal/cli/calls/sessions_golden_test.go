package calls_test

import (
	"testing"

	"palyra/internal/cli/clitest"
)

// TestGoldenSessions compares the output of every listing and page in every format.
func TestGoldenSessions(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"sessions_list": {"sessions", "list"}, "sessions_show": {"sessions", "show", clitest.SessionID},
		"sessions_end": {"sessions", "end", clitest.SessionID, "--reason", "looked"},
	})
}
