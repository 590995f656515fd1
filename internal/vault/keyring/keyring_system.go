//go:build darwin || windows

package keyring

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// Keyring is the keyring of the user.
type Keyring struct {
	// service is the owner of the items.
	service string
}

// Session returns the keyring of this user.
func Session(func(string) string) Keyring { return Keyring{service} }

// OfGateway returns the same keyring for the items of a gateway, separate from other gateways.
func (Keyring) OfGateway(id string) Keyring { return Keyring{service + " " + id} }

// Put stores a value under a name, replacing the previous one.
func (k Keyring) Put(_ context.Context, item string, value []byte) error {
	return withItem(item, keyring.Set(k.service, item, base64.StdEncoding.EncodeToString(value)))
}

// Get returns the value of an item, or ErrNotFound.
func (k Keyring) Get(_ context.Context, item string) ([]byte, error) {
	text, err := keyring.Get(k.service, item)
	if err != nil {
		return nil, withItem(item, err)
	}
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, away("the item %s has been modified", item)
	}
	return value, nil
}

// Delete deletes an item; the error is ErrNotFound if it does not exist.
func (k Keyring) Delete(_ context.Context, item string) error {
	return withItem(item, keyring.Delete(k.service, item))
}

func withItem(item string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyring.ErrNotFound):
		return fmt.Errorf("looking for %s: %w", item, ErrNotFound)
	}
	return away("%w", err)
}
