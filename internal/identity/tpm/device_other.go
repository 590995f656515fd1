//go:build !linux && !windows

package tpm

import (
	"runtime"

	"github.com/google/go-tpm/tpm2/transport"

	"palyra/internal/reason"
)

// open refuses: Macs have no TPM, and their Secure Enclave signs for signed
// applications alone.
func open(string) (transport.TPMCloser, error) {
	return nil, reason.Errorf(reason.ConfigInvalid, "palyrad uses no TPM on %s", runtime.GOOS).WithRemedy("Set keys.store to \"file\".")
}
