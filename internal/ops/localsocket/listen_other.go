//go:build !unix

package localsocket

import (
	"errors"
	"fmt"
)

// ErrNotOffered marks a socket that cannot be offered here; palyrad works without.
var ErrNotOffered = errors.New("no socket for the local operator")

// dirOwner says -1: no user is known by a number here.
func dirOwner(string) (int64, error) { return -1, nil }

// Listen offers nothing here: the system does not say whose process connects.
func Listen(string) (*Listener, error) {
	return nil, fmt.Errorf("%w: this system does not say whose process connects to one", ErrNotOffered)
}

// Shared offers nothing here, for the same reason.
func Shared(string, string, ...int64) (*Listener, error) { return Listen("") }

// overflowUID says -1, which is nobody.
func overflowUID() int64 { return -1 }
