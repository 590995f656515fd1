package overlay

import (
	"strings"
	"time"

	"palyra/internal/core/reason"
)

// Options say how a commit is written down.
type Options struct {
	// History keeps what the commit replaces.
	History History
	// ID names the change set in its History; it is 1 to 128 of letters,
	// digits, '.', '_' and '-'.
	ID string
	// CallID and Principal are for people who look at the History.
	CallID    string
	Principal string
	At        time.Time
	// Protected are the operator's patterns, for an undo.
	Protected []string
}

// Applied is a change set that is in the workspace.
type Applied struct {
	Summary Summary
	// Left is what could not be tidied up afterwards, nil for nothing. It
	// does no harm, and Recover tries again.
	Left error
}

// summary is what is kept of a set.
func (s Set) summary(o Options) Summary {
	f := s.Facts()
	return Summary{
		ID: o.ID, Workspace: s.Workspace, At: o.At.UTC(), CallID: o.CallID, Principal: o.Principal, Root: s.Root(),
		Added: f.Added, Modified: f.Modified, Deleted: f.Deleted, Bytes: f.Bytes, Protected: f.Protected, Classes: f.Classes,
	}
}

// refuseSpecial refuses a set that can never be committed.
func (s Set) refuseSpecial() error {
	refused := s.Refused()
	if len(refused) == 0 {
		return nil
	}
	const most = 10
	shown := make([]string, 0, most)
	for _, name := range refused[:min(len(refused), most)] {
		shown = append(shown, Display(name))
	}
	return reason.Errorf(reason.CommitRefused, "the program left %d devices, FIFOs or sockets, or changed some: %s", len(refused), strings.Join(shown, ", ")).
		WithRemedy("Make the program remove them before it ends, or keep them in /tmp.")
}

// offsets lays the content that changes replace out in one file. When it is
// more than is kept of a workspace nothing is, and the size is -1.
func offsets(changes []Change) (at []int64, size int64) {
	at = make([]int64, len(changes))
	for i, c := range changes {
		at[i] = -1
		if c.Was.Type == File {
			at[i] = size
			size += c.Was.Size
		}
	}
	if size <= keptBytes {
		return at, size
	}
	for i := range at {
		at[i] = -1
	}
	return at, -1
}

// Recovered is a change set that a crash had interrupted.
type Recovered struct {
	Workspace, ID string
	// Committed says that it is in the workspace now; else it was taken back.
	Committed bool
}
