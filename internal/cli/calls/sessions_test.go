package calls_test

import (
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Cases("sessions", clitest.Cases{
		{"show by the beginning of the id", []string{"show", strings.ToLower(clitest.SessionID[:8])}, 0, "12 of 1000, and 3 of runs"},
		{"show prints the origin of the read data", []string{"show", clitest.SessionID}, 0, "it has read from the open world"},
		{"end", []string{"end", clitest.SessionID[:8], "--reason", "looked"}, 0, "user:ada"},
		{"end of none", []string{"end", "01UNKN0WN00000000000000000"}, 1, "session 01UNKN0WN00000000000000000 not found"},
		{"no id at all", []string{"end", "../x"}, 2, "not the id"},
	})
	if got := clitest.Requests[*palyrav1.SessionServiceEndSessionRequest](w); len(got) != 1 || got[0].GetReason() != "looked" || got[0].GetSessionId() != clitest.SessionID {
		t.Errorf("ended: %v", got)
	}
}
