package tpm

import (
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/windowstpm"
)

// open opens the TPM of the machine through TPM Base Services. There is one, so that
// the device's name says nothing.
func open(device string) (transport.TPMCloser, error) {
	t, err := windowstpm.Open()
	if err != nil {
		return nil, refusedDevice(device, err)
	}
	return t, nil
}
