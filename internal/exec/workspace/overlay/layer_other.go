//go:build !linux

package overlay

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Layer is supported only on Linux: New always fails here.
type Layer struct{}

// New returns an error: copy-on-write workspaces require the overlay file system of Linux.
func New(Config) (*Layer, error) { return nil, unsupported() }

func unsupported() error {
	return reason.Errorf(reason.PlatformUnknown, "copy-on-write workspaces require the overlay file system of Linux").
		WithRemedy("Run the program with a read-only workspace, or on Linux.")
}

// Upper returns nil.
func (l *Layer) Upper() *os.File { return nil }

// Work returns nil.
func (l *Layer) Work() *os.File { return nil }

// Touched returns an error.
func (l *Layer) Touched() (bool, error) { return false, unsupported() }

// Begin returns an error.
func (l *Layer) Begin() error { return unsupported() }

// Close does nothing.
func (l *Layer) Close() error { return nil }

// RemoveTree removes name in dir and everything below it. Trees on these platforms need no
// special handling.
func RemoveTree(dir *os.File, name string) error {
	return os.RemoveAll(filepath.Join(dir.Name(), name))
}

// Sweep does nothing.
func Sweep(string) error { return nil }

// Changes returns an error.
func (l *Layer) Changes(context.Context) (Set, error) { return Set{}, unsupported() }

// Commit returns an error.
func (l *Layer) Commit(context.Context, Set, Options) (Applied, error) {
	return Applied{}, unsupported()
}

// Diff returns "".
func (s Set) Diff(int) string { return "" }

// Look does nothing.
func (s Set) Look(Change, func(io.Reader) error) error { return nil }

// Reversal returns an error: no change set was ever committed.
func (h History) Reversal(string, string, []string) (Set, error) { return Set{}, unsupported() }

// Undo returns an error: no change set was ever committed.
func (h History) Undo(context.Context, string, string, string, Options) (Applied, error) {
	return Applied{}, unsupported()
}

// Recover does nothing: no change set was ever committed.
func (h History) Recover(map[string]string) ([]Recovered, error) { return nil, nil }
