package people_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

// TestGoldenConsoles compares the output of every listing and page in every format.
func TestGoldenConsoles(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"console_link":     {"console", "--no-browser"},
		"console_sessions": {"console", "sessions"},
		"console_revoke":   {"console", "revoke", clitest.ConsoleSessionID},
	})
}

func TestRevokeByTheBeginningOfTheID(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.Run("console", "revoke", strings.ToLower(clitest.ConsoleSessionID[:8])), 0)
	if got := clitest.Requests[*palyrav1.RevokeConsoleSessionRequest](w); len(got) != 1 || got[0].GetSessionId() != clitest.ConsoleSessionID {
		t.Errorf("revoked %v", got)
	}
	w.Want(w.Run("console", "revoke", "01UNKN0WN00000000000000000"), 1)
}
