package tpm

import (
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/windowstpm"
)

// open opens the TPM of the machine through TPM Base Services. A machine has only one TPM, so
// that the device name is ignored.
func open(device string) (transport.TPMCloser, error) {
	t, err := windowstpm.Open()
	if err != nil {
		return nil, refusedDevice(device, err)
	}
	return t, nil
}
