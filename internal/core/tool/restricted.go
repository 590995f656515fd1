package tool

import (
	"errors"

	"palyra/internal/core/reason"
)

// RestrictedError reports that a call cannot be made because of the content of files, or
// because a file exists or does not exist. Its own message contains no detail. Disclose
// returns the detail for callers that policy allows to read the files.
type RestrictedError struct {
	// Plan is the plan of the call without the file content. Policy evaluates it, so that a denial
	// does not depend on the content. Plan.Contents lists the files.
	Plan Plan
	// Detail is the full error.
	Detail error
}

var errRestricted = reason.Errorf(reason.PatchConflict, "the call conflicts with the files of the workspace").
	WithRemedy("Policy does not allow you to read these files, so this error has no details. Ask a person who may read them, or ask the operator to allow fs.read for them.")

// Error returns a message without detail.
func (e *RestrictedError) Error() string { return errRestricted.Error() }

// Unwrap returns the reason without detail.
func (e *RestrictedError) Unwrap() error { return errRestricted }

// Disclose returns the detail of a RestrictedError if mayDisclose allows it for all of its
// files, and err otherwise. An error without files, or a nil mayDisclose, discloses nothing.
func Disclose(err error, mayDisclose func([]FileAccess) bool) error {
	var restricted *RestrictedError
	if mayDisclose == nil || !errors.As(err, &restricted) || len(restricted.Plan.Contents) == 0 {
		return err
	}
	if mayDisclose(restricted.Plan.Contents) {
		return restricted.Detail
	}
	return err
}
