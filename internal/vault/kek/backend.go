package kek

import (
	"context"
	"errors"

	"palyra/internal/core/reason"
)

// The words of vault.backend.
const (
	Auto          = "auto"
	InFile        = "file"
	SecretService = "secret_service"
	Keychain      = "keychain"
	DPAPI         = "dpapi"
)

// ErrNoKey marks a key that a backend does not have, which it has been asked for and
// has answered.
var ErrNoKey = errors.New("there is no such key")

// Backend keeps the keys of one gateway by their ids. An error that carries no reason
// says that it cannot be asked now.
type Backend interface {
	// Name is what the pin calls it.
	Name() string
	// Get returns a key, or ErrNoKey.
	Get(ctx context.Context, id string) ([]byte, error)
	// Put keeps a key durably.
	Put(ctx context.Context, id string, key []byte) error
	// Delete takes a key away; one that is not there is no error.
	Delete(ctx context.Context, id string) error
}

// holder is a backend that can say what it holds: a file in the state directory, of
// which nobody else writes.
type holder interface {
	held(ctx context.Context) (ids []string, err error)
}

// eraser is a backend that takes all away that it has, also what it cannot read.
type eraser interface {
	erase() error
}

// unlocker is a backend that takes a passphrase.
type unlocker interface {
	unlock(phrase []byte) error
}

// spoken is a backend's name for people.
func spoken(name string) string {
	switch name {
	case SecretService:
		return "secret service"
	case DPAPI:
		return "DPAPI"
	}
	return name
}

// unasked makes an error of a backend one that says that it cannot be asked now. What
// it said of the next step stays.
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
