package sandbox

import (
	"os"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Session is a run that continues until it is ended explicitly, such as a server that reads
// requests and writes answers. The limits of a run apply, with two exceptions: there is no
// deadline (Limits.Wall), and the amount of output is not limited. Spec.Output receives the
// whole output in order. The program waits while Output runs, so the receiver limits the rate.
type Session struct {
	// Stdin is the read end of a pipe for the program. The caller keeps ownership and closes it
	// after the program has started: writes then fail once the program has ended.
	Stdin *os.File
	// Started is called once, when the program has started. It must not block.
	Started func(Underway)
}

// Underway describes a running program.
type Underway struct {
	// Report contains the verified isolation; the result of the run is not known yet.
	Report Report
	// Wrote reports whether the copy of the workspace was written to. It may be called until the
	// run ends.
	Wrote func() (bool, error)
	// Connections returns the connection attempts of the program so far, as in the final Report.
	Connections func() (list []tool.Connection, missed int)
}

// NoSessions refuses a Spec with a Session for a backend without sessions.
func (s Spec) NoSessions(backend string) error {
	if s.Session == nil {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "%s cannot run servers: it does not support sessions", backend).
		WithRemedy("Run the server elsewhere and reach it by HTTP, or use a Linux machine with Tier C.")
}
