package cli

import (
	"strings"
	"testing"
)

func TestSessions(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"show by the beginning of the id", []string{"show", strings.ToLower(sessionID[:8])}, 0, "12 of 1000, and 3 of runs"},
		{"show says what was read", []string{"show", sessionID}, 0, "it has read from the open world"},
		{"end", []string{"end", sessionID[:8], "--reason", "looked"}, 0, "user:ada"},
		{"end of none", []string{"end", "01UNKN0WN00000000000000000"}, 1, "no session"},
		{"no id at all", []string{"end", "../x"}, 2, "not the id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := w.run(append([]string{"sessions"}, test.args...)...)
			if r.code != test.code || !strings.Contains(r.out+r.err, test.want) {
				t.Errorf("exit %d, want %d with %q:\n%s%s", r.code, test.code, test.want, r.out, r.err)
			}
		})
	}
	if got := w.gateway.endedSessions; len(got) != 1 || got[0].GetReason() != "looked" || got[0].GetSessionId() != sessionID {
		t.Errorf("ended: %v", got)
	}
}
