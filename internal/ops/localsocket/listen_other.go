//go:build !unix

package localsocket

import (
	"errors"
	"fmt"
)

// ErrNotOffered is returned if a socket is not supported here; palyrad works without it.
var ErrNotOffered = errors.New("no socket for the local operator")

// dirOwner returns -1: this system has no numeric uids.
func dirOwner(string) (int64, error) { return -1, nil }

// Listen returns ErrNotOffered: the system does not identify the connecting process.
func Listen(string) (*Listener, error) {
	return nil, fmt.Errorf("%w: this system does not identify the connecting process", ErrNotOffered)
}

// Shared returns ErrNotOffered for the same reason.
func Shared(string, string, ...int64) (*Listener, error) { return Listen("") }

// overflowUID returns -1, which matches no user.
func overflowUID() int64 { return -1 }
