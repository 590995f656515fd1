package tpm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/google/go-tpm/tpm2"

	"palyra/internal/core/reason"
)

// errNoUse is the error for a device that is not a usable TPM.
var errNoUse = errors.New("it cannot be used as a TPM")

// refusedDevice returns an error that explains why the device cannot be opened.
func refusedDevice(device string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist", errNoUse, device)
	case errors.Is(err, fs.ErrPermission):
		return reason.Errorf(reason.ConfigInvalid, "palyrad (uid %d) may not open the TPM %s", os.Geteuid(), device).
			WithRemedy("Give the user that palyrad runs as access to it: on most distributions, add the user to the group tss.")
	case errors.Is(err, syscall.EBUSY):
		return reason.Errorf(reason.ConfigInvalid, "another program uses the TPM %s exclusively", device).WithRemedy(managed)
	}
	return fmt.Errorf("%w: %w", errNoUse, err)
}

const (
	// managed is the remedy if other programs also use the TPM.
	managed = "Name the device of the kernel's resource manager in keys.tpm_device, such as /dev/tpmrm0."
	// foreign is the remedy for keys of another TPM. They are unusable without the TPM that created
	// them.
	foreign = "Start palyrad with the TPM that made the keys (on a virtual machine, with the state of its virtual TPM), and name it in keys.tpm_device. If it is gone or was cleared, so are the keys: " +
		"keep this state directory to verify the gateway's signatures, start a new gateway in an empty one, and issue new credentials to members."
)

// explain adds an explanation for the operator to an error of the TPM. made means that the TPM
// already holds keys; otherwise keys can still be files. It returns errors that do not come
// from the TPM, or that an operator cannot resolve, unchanged.
func (m *Module) explain(err error, made bool) error {
	if err == nil || reason.Of(err) != reason.Internal {
		return err
	}
	say := func(what, next string) error {
		return reason.Errorf(reason.ConfigInvalid, "the TPM %s %s: %w", m.device, what, err).WithRemedy("%s", next)
	}
	or := ", or set keys.store to \"file\"."
	if made {
		or = "."
	}
	is := func(codes ...error) bool {
		return slices.ContainsFunc(codes, func(code error) bool { return errors.Is(err, code) })
	}
	switch {
	case is(errForeign, tpm2.TPMRCIntegrity):
		return say("did not make these keys, or was cleared since", foreign)
	case is(errNoUse) && made:
		return say("is not there", foreign)
	case is(errNoUse):
		return say("is not there", "Name a TPM in keys.tpm_device"+or)
	case hasPassword(err):
		return say("has a password for its owner hierarchy and no storage root key at 0x81000001 that these keys could be of, so that palyrad has none",
			"Take the password of the owner hierarchy away (`tpm2_changeauth -c owner`)"+or)
	case is(tpm2.TPMRCHierarchy):
		return say("has its owner hierarchy switched off", "Switch it on in the firmware's settings"+or)
	case is(tpm2.TPMRCLockout):
		return say("is locked out after too many wrong passwords",
			"Wait until it ends (`tpm2_getcap properties-variable` says when), or end it with `tpm2_dictionarylockout -c`.")
	case is(tpm2.TPMRCObjectMemory, tpm2.TPMRCSessionMemory):
		return say("is full of what other programs left in it", managed)
	case is(errSilent):
		return say("hangs", "Restart the machine, or the TPM in software.")
	case is(tpm2.TPMRCInitialize, tpm2.TPMRCFailure):
		return say("does not work", "Restart the machine; its firmware starts the TPM.")
	}
	return err
}
