// Package keyring stores small secrets in the keyring of the user's session: the Secret Service on
// Linux, the Keychain of macOS, and the Credential Manager of Windows.
package keyring

import (
	"errors"

	"palyra/internal/core/reason"
)

// service is the service name of the items.
const service = "palyra"

// ErrNotFound is returned for an item that is not in the keyring.
var ErrNotFound = errors.New("it is not in the keyring")

// away returns the error of an unavailable keyring.
func away(format string, args ...any) error {
	return reason.Errorf(reason.NotConnected, "using the keyring: "+format, args...).
		WithRemedy("Log in to the desktop session of the keyring, or unlock the keyring, and repeat the command.")
}
