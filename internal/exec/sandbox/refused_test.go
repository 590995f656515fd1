package sandbox

import (
	"fmt"
	"testing"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// TestRefused: refusals are listed once for each kind, at most 20, and the others are counted.
// Allowed connections are not refusals.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := Report{
		Violations:       []tool.Violation{{Syscall: "mount", Errno: "EPERM"}, {Syscall: "mount", Errno: "EPERM"}},
		ViolationsMissed: 3, RefusalsMissed: 4,
		Refusals: []tool.Refusal{{By: "seccomp", Operation: "io_setup", Reason: "ENOSYS", Count: 5}},
		Connections: []tool.Connection{
			{Host: "a.org", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted},
			{Host: "a.org", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted, Count: 6},
			{Host: "b.org", Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted, Leg: egress.LegName},
			{Host: "c.org", Port: 443, Verdict: egress.VerdictAllowed},
			{Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted, Count: 2},
		},
	}
	list, more := r.Refused()
	want := "[{seccomp mount EPERM 2} {network a.org:443 unlisted 7} {network b.org unlisted 1} {network several hosts unlisted 2} {seccomp io_setup ENOSYS 5}] 7"
	if got := fmt.Sprint(list, more); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 30 {
		r.Connections = append(r.Connections, tool.Connection{Host: fmt.Sprintf("h%d.org", i), Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted})
	}
	if list, more := r.Refused(); len(list) != mostRefused || more != 7+(30-16)+5 {
		t.Errorf("%d listed, %d more", len(list), more)
	}
}
