package kek

import (
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
)

// protectedFormat is the format of the backend "dpapi".
const protectedFormat = "palyra vault.dpapi v1"

// protection encrypts a text for a system user, with associated data.
type protection struct {
	protect, unprotect func(text, about []byte) ([]byte, error)
}

// newProtected returns the backend "dpapi" of a gateway.
func newProtected(stateDir, gateway string, by protection) *file {
	return &file{name: DPAPI, path: statedir.VaultProtected(stateDir), format: protectedFormat, gateway: gateway, cover: by}
}

func (p protection) on(f *keyFile, list []byte, _ *keyFile) (err error) {
	f.Protected, err = p.protect(list, f.about())
	return err
}

func (p protection) off(f *keyFile) ([]byte, error) {
	list, err := p.unprotect(f.Protected, f.about())
	if err != nil {
		return nil, reason.Errorf(reason.VaultLocked, "decrypting vault.dpapi: %w", err).
			WithRemedy("Run palyrad as the user who created vault.dpapi, on the same machine; otherwise restore it from a backup.")
	}
	return list, nil
}
