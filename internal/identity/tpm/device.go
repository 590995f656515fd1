package tpm

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/go-tpm/tpm2"

	"palyra/internal/reason"
)

// useFiles is the way on where no TPM can be used.
const useFiles = "Name a TPM in keys.tpm_device, or set keys.store to \"file\"."

// refusedDevice says why the device cannot be opened.
func refusedDevice(device string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reason.Errorf(reason.ConfigInvalid, "there is no TPM at %s", device).WithRemedy("%s", useFiles)
	case errors.Is(err, fs.ErrPermission):
		return reason.Errorf(reason.ConfigInvalid, "palyrad (uid %d) may not open the TPM %s", os.Geteuid(), device).
			WithRemedy("Let the user that palyrad runs as open it: with most distributions it has to be in the group tss.")
	case errors.Is(err, syscall.EBUSY):
		return reason.Errorf(reason.ConfigInvalid, "another program holds the TPM %s for itself", device).
			WithRemedy("Name the device of the kernel's resource manager in keys.tpm_device, such as /dev/tpmrm0.")
	}
	return reason.Errorf(reason.ConfigInvalid, "the TPM %s cannot be opened: %w", device, err).WithRemedy("%s", useFiles)
}

// foreign is what can be done when the keys are of another TPM. They cannot be had
// back without the one that made them.
const foreign = "Start palyrad with the TPM that made the keys (on a virtual machine, with the state of its virtual TPM). If that is gone or was cleared, so are the keys: " +
	"keep this state directory to verify what the gateway signed, start a new gateway in an empty one, and give members credentials anew."

// explain gives what a TPM answers an operator's words. What is no answer of
// the TPM's own, or nobody can do anything about, stays as it is.
func (m *Module) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errForeign), errors.Is(err, tpm2.TPMRCIntegrity):
		return reason.Errorf(reason.ConfigInvalid, "the keys are not of the TPM %s: it is another one, or was cleared: %w", m.device, err).WithRemedy(foreign)
	case errors.Is(err, tpm2.TPMRCAuthFail), errors.Is(err, tpm2.TPMRCBadAuth), errors.Is(err, tpm2.TPMRCAuthMissing):
		return reason.Errorf(reason.ConfigInvalid, "the owner hierarchy of the TPM %s has a password, so palyrad cannot derive its storage root key: %w", m.device, err).
			WithRemedy("Take the password of the owner hierarchy away (`tpm2_changeauth -c owner`), or set keys.store to \"file\".")
	case errors.Is(err, tpm2.TPMRCHierarchy):
		return reason.Errorf(reason.ConfigInvalid, "the owner hierarchy of the TPM %s is switched off: %w", m.device, err).
			WithRemedy("Switch it on in the firmware's settings, or set keys.store to \"file\".")
	case errors.Is(err, tpm2.TPMRCLockout):
		return reason.Errorf(reason.ConfigInvalid, "the TPM %s is locked out after too many wrong passwords: %w", m.device, err).
			WithRemedy("Wait until it ends (`tpm2_getcap properties-variable` says when), or end it with `tpm2_dictionarylockout -c`.")
	case errors.Is(err, tpm2.TPMRCObjectMemory), errors.Is(err, tpm2.TPMRCSessionMemory):
		return reason.Errorf(reason.ConfigInvalid, "the TPM %s is full of what other programs left in it: %w", m.device, err).
			WithRemedy("Name the device of the kernel's resource manager in keys.tpm_device, such as /dev/tpmrm0.")
	case errors.Is(err, tpm2.TPMRCInitialize), errors.Is(err, tpm2.TPMRCFailure):
		return reason.Errorf(reason.ConfigInvalid, "the TPM %s does not work: %w", m.device, err).
			WithRemedy("Restart the machine; its firmware starts the TPM.")
	}
	return err
}
