//go:build darwin || windows

package keyring

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// Keyring is that of the user.
type Keyring struct {
	// service is whose items are meant.
	service string
}

// Session is the keyring of this user.
func Session(func(string) string) Keyring { return Keyring{service} }

// OfGateway is the same keyring for the items of a gateway, which those of another do
// not meet.
func (Keyring) OfGateway(id string) Keyring { return Keyring{service + " " + id} }

// Put keeps a value under a name, in place of the one before.
func (k Keyring) Put(_ context.Context, item string, value []byte) error {
	return told(item, keyring.Set(k.service, item, base64.StdEncoding.EncodeToString(value)))
}

// Get returns the value of an item, or ErrNotFound.
func (k Keyring) Get(_ context.Context, item string) ([]byte, error) {
	text, err := keyring.Get(k.service, item)
	if err != nil {
		return nil, told(item, err)
	}
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, away("the item %s is not as it was put there", item)
	}
	return value, nil
}

// Delete takes an item away; one that is not there is ErrNotFound.
func (k Keyring) Delete(_ context.Context, item string) error {
	return told(item, keyring.Delete(k.service, item))
}

func told(item string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyring.ErrNotFound):
		return fmt.Errorf("looking for %s: %w", item, ErrNotFound)
	}
	return away("%w", err)
}
