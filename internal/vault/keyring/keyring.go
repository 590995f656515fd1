// Package keyring keeps small secrets in the keyring of the user's session: by the
// Secret Service on Linux, in the Keychain of macOS, and with the Credential Manager
// of Windows.
package keyring

import (
	"errors"

	"palyra/internal/core/reason"
)

// service is the name under which items are kept.
const service = "palyra"

// ErrNotFound marks an item that is not in the keyring.
var ErrNotFound = errors.New("it is not in the keyring")

// away is a keyring that cannot be asked.
func away(format string, args ...any) error {
	return reason.Errorf(reason.NotConnected, "the keyring cannot be used: "+format, args...).
		WithRemedy("Log in to the desktop session whose keyring it is, or unlock the keyring, and repeat the command.")
}
