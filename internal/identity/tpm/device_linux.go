package tpm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"palyra/internal/core/reason"
)

func open(device string) (transport.TPMCloser, error) {
	real, err := filepath.EvalSymlinks(device)
	if err != nil {
		return nil, refusedDevice(device, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, refusedDevice(device, err)
	}
	var t transport.TPMCloser
	switch {
	case info.Mode()&fs.ModeSocket != 0:
		t, err = linuxudstpm.Open(real)
	case unmanaged(real):
		return nil, reason.Errorf(reason.ConfigInvalid, "%s is the TPM without the kernel's resource manager: no other program could use it while palyrad runs", device).
			WithRemedy("Set keys.tpm_device to %s.", strings.Replace(real, "/dev/tpm", "/dev/tpmrm", 1))
	case info.Mode()&fs.ModeCharDevice != 0:
		t, err = linuxtpm.Open(real)
	default:
		return nil, fmt.Errorf("%w: it is neither a device nor a socket", errNoUse)
	}
	if err != nil {
		return nil, refusedDevice(device, err)
	}
	return t, nil
}

// unmanaged reports whether a device is the kernel's /dev/tpm0 and not /dev/tpmrm0.
func unmanaged(device string) bool {
	number, is := strings.CutPrefix(device, "/dev/tpm")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}
