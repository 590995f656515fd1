package sandbox

import (
	"os"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Session is a conversation with a program that runs until somebody ends it, such
// as a server that reads requests and writes answers. The limits of a run hold, but
// two: there is no deadline (Limits.Wall), and a flood of output does not end it.
// Spec.Output gets all that it writes, in order, and the program waits while Output
// does: who gets it bounds it.
type Session struct {
	// Stdin is the end of a pipe from which the program reads. It stays the caller's,
	// who closes it when the program has started: writes then fail once it has ended.
	Stdin *os.File
	// Started is called once, when the program has started. It must not block.
	Started func(Underway)
}

// Underway is what is known of a program while it runs.
type Underway struct {
	// Report holds what was read back from inside; what a run comes to is not
	// known yet.
	Report Report
	// Wrote reports whether something was written to the copy of the workspace. It
	// may be called until the run ends.
	Wrote func() (bool, error)
	// Connections are what the program tried to reach so far, as Report has them in
	// the end.
	Connections func() (list []tool.Connection, missed int)
}

// NoSessions refuses a Spec that has a Session where a backend has none.
func (s Spec) NoSessions(backend string) error {
	if s.Session == nil {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "%s runs no servers: it has no conversations with programs", backend).
		WithRemedy("Run the server elsewhere and reach it by HTTP, or use a Linux machine with Tier C.")
}
