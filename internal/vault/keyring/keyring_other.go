//go:build !linux && !darwin && !windows

package keyring

import "context"

// Keyring is none here.
type Keyring struct{}

// Session is a keyring that refuses everything.
func Session(func(string) string) Keyring { return Keyring{} }

// OfGateway refuses everything, too.
func (k Keyring) OfGateway(string) Keyring { return k }

// Put refuses.
func (Keyring) Put(context.Context, string, []byte) error { return none() }

// Get refuses.
func (Keyring) Get(context.Context, string) ([]byte, error) { return nil, none() }

// Delete refuses.
func (Keyring) Delete(context.Context, string) error { return none() }

func none() error { return away("this system has none that palyra knows") }
