//go:build !linux && !darwin && !windows

package keyring

import "context"

// Keyring is not supported on this system.
type Keyring struct{}

// Session returns a keyring whose operations fail.
func Session(func(string) string) Keyring { return Keyring{} }

// OfGateway returns k.
func (k Keyring) OfGateway(string) Keyring { return k }

// Put fails.
func (Keyring) Put(context.Context, string, []byte) error { return none() }

// Get fails.
func (Keyring) Get(context.Context, string) ([]byte, error) { return nil, none() }

// Delete fails.
func (Keyring) Delete(context.Context, string) error { return none() }

func none() error { return away("this system has no supported keyring") }
