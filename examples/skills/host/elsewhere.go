//go:build !wasip1

// Package host gives a tool access to Palyra's grants. Outside of WebAssembly nothing is granted,
// so that a program and its tests run unchanged.
package host

import (
	"crypto/rand"
	"log"
	"time"
)

func open(int32, string) (Handle, error) { return 0, failure(-1, "") }

// Names returns the names of all grants of a kind.
func Names(Kind) []string { return nil }

// Request makes a request.
func (h Handle) Request(Request) (Response, error) { return Response{}, ErrNotGranted }

// Secret reads the value of a secret.
func (h Handle) Secret() ([]byte, error) { return nil, ErrNotGranted }

// Get returns the value of a key.
func (h Handle) Get(string) ([]byte, error) { return nil, ErrNotGranted }

// Put stores a value under a key.
func (h Handle) Put(string, []byte) error { return ErrNotGranted }

// Delete removes the value of a key.
func (h Handle) Delete(string) error { return ErrNotGranted }

// List returns the keys with a prefix.
func (h Handle) List(string) ([]string, error) { return nil, ErrNotGranted }

// Send sends a message to a channel.
func (h Handle) Send(string) error { return ErrNotGranted }

// Log writes a line to the log.
func Log(_ Level, message string) { log.Print(message) }

// Now returns the time.
func Now() time.Time { return time.Now().UTC() }

// Random fills a slice with random bytes.
func Random(to []byte) { _, _ = rand.Read(to) }
