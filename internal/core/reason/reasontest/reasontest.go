// Package reasontest checks the reason codes of errors in tests.
package reasontest

import (
	"testing"

	"palyra/internal/core/reason"
)

// Want fails the test unless the error of the operation has the code.
func Want(t testing.TB, what string, err error, code reason.Code) {
	t.Helper()
	if reason.Of(err) != code {
		t.Errorf("%s: got %v (%s), want %s", what, err, reason.Of(err), code)
	}
}
