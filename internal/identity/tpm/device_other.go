//go:build !linux && !windows

package tpm

import (
	"fmt"
	"runtime"

	"github.com/google/go-tpm/tpm2/transport"
)

// open returns an error: Macs have no TPM, and their Secure Enclave signs only for signed
// applications.
func open(string) (transport.TPMCloser, error) {
	return nil, fmt.Errorf("%w: palyrad uses none on %s", errNoUse, runtime.GOOS)
}
