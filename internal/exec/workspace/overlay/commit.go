package overlay

import (
	"strings"
	"time"

	"palyra/internal/core/reason"
)

// Options are the details of a commit for its record.
type Options struct {
	// History stores the replaced content.
	History History
	// ID names the change set in its History; it is 1 to 128 of letters, digits, '.', '_' and
	// '-'.
	ID string
	// CallID and Principal are displayed with the History.
	CallID    string
	Principal string
	At        time.Time
	// Protected are the operator's patterns, for an undo.
	Protected []string
}

// Applied is a committed change set.
type Applied struct {
	Summary Summary
	// Left is an error of the final cleanup, nil for none. It is harmless, and Recover retries.
	Left error
}

// summary returns the summary of a set for its record.
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
	return reason.Errorf(reason.CommitRefused, "the program created or changed %d devices, FIFOs or sockets: %s", len(refused), strings.Join(shown, ", ")).
		WithRemedy("Make the program remove them before it ends, or keep them in /tmp.")
}

// offsets assigns positions in one file to the content that changes replace. If its size exceeds
// the limit of a workspace, no content is kept and the size is -1.
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

// Recovered is a change set whose commit was interrupted by a crash.
type Recovered struct {
	Workspace, ID string
	// Committed reports that it was committed; otherwise it was rolled back.
	Committed bool
}
