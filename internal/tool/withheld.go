package tool

import (
	"errors"

	"palyra/internal/reason"
)

// Withheld is why a call cannot be made, found in the content of files or in whether
// they exist. As an error it says no more than that there is a conflict: only callers
// whom policy lets read the files without a question are told what was found (Reveal).
type Withheld struct {
	// Plan is the call without what was found, so that policy can deny it as if nothing
	// had been. Its Seen are the files.
	Plan Plan
	// Found is what was found.
	Found error
}

// errConflict is what others are told.
var errConflict = reason.Errorf(reason.PatchConflict, "the call conflicts with what the workspace holds").
	WithRemedy("Policy does not let you read the files, so that you are not told what they hold. Ask somebody who may read them, or the operator for a rule that lets you (fs.read).")

// Error returns what everybody may know.
func (w *Withheld) Error() string { return errConflict.Error() }

// Unwrap returns the reason that everybody may know.
func (w *Withheld) Unwrap() error { return errConflict }

// Reveal returns what was found if err is Withheld and maySee reports that policy lets
// the caller read all of the files, and err otherwise. A nil maySee reveals nothing.
func Reveal(err error, maySee func([]FileAccess) bool) error {
	var held *Withheld
	if maySee != nil && errors.As(err, &held) && maySee(held.Plan.Seen) {
		return held.Found
	}
	return err
}
