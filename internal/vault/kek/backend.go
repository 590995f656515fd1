package kek

import (
	"context"
	"errors"

	"palyra/internal/core/reason"
)

// The values of vault.backend.
const (
	Auto          = "auto"
	InFile        = "file"
	SecretService = "secret_service"
	Keychain      = "keychain"
	DPAPI         = "dpapi"
)

// ErrNoKey is returned for a key that a backend does not have, if the backend is available.
var ErrNoKey = errors.New("the key does not exist")

// Backend stores the keys of one gateway by their ids. An error without a reason means that the
// backend is not available now.
type Backend interface {
	// Name is the name in the pin.
	Name() string
	// Get returns a key, or ErrNoKey.
	Get(ctx context.Context, id string) ([]byte, error)
	// Put stores a key durably.
	Put(ctx context.Context, id string, key []byte) error
	// Delete deletes a key; a missing key is not an error.
	Delete(ctx context.Context, id string) error
}

// holder is a backend that can list its keys: a file in the state directory, which only palyrad
// writes.
type holder interface {
	held(ctx context.Context) (ids []string, err error)
}

// eraser is a backend that can delete all its keys, including unreadable ones.
type eraser interface {
	erase() error
}

// unlocker is a backend that accepts a passphrase.
type unlocker interface {
	unlock(phrase []byte) error
}

// spoken returns a backend's display name.
func spoken(name string) string {
	switch name {
	case SecretService:
		return "secret service"
	case DPAPI:
		return "DPAPI"
	}
	return name
}

// unasked converts an error of a backend to an error that reports the backend as not available
// now. The remedy is kept.
func unasked(err error) error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return reason.Errorf(reason.VaultLocked, "%w", err)
	}
	switch known.Code {
	case reason.VaultLocked, reason.VaultKeyMissing, reason.SecretUnreadable:
		return err
	}
	return reason.Errorf(reason.VaultLocked, "%w", err).WithRemedy("%s", known.NextStep())
}
