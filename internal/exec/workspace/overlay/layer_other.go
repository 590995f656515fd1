//go:build !linux

package overlay

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Layer exists on Linux only: New never returns one here.
type Layer struct{}

// New refuses: copy-on-write workspaces are overlays, which only Linux has.
func New(Config) (*Layer, error) { return nil, unsupported() }

func unsupported() error {
	return reason.Errorf(reason.PlatformUnknown, "copy-on-write workspaces need the overlay file system of Linux").
		WithRemedy("Run the program with a read-only workspace, or on Linux.")
}

// Upper has nothing to return.
func (l *Layer) Upper() *os.File { return nil }

// Work has nothing to return.
func (l *Layer) Work() *os.File { return nil }

// Touched is refused.
func (l *Layer) Touched() (bool, error) { return false, unsupported() }

// Begin refuses: there is no layer.
func (l *Layer) Begin() error { return unsupported() }

// Close does nothing.
func (l *Layer) Close() error { return nil }

// RemoveTree removes name in dir and everything below it. Programs leave nothing
// here that would take more.
func RemoveTree(dir *os.File, name string) error {
	return os.RemoveAll(filepath.Join(dir.Name(), name))
}

// Sweep does nothing: there are no layers.
func Sweep(string) error { return nil }

// Changes refuses: there is no layer.
func (l *Layer) Changes(context.Context) (Set, error) { return Set{}, unsupported() }

// Commit refuses: there is no layer.
func (l *Layer) Commit(context.Context, Set, Options) (Applied, error) {
	return Applied{}, unsupported()
}

// Diff has nothing to show.
func (s Set) Diff(int) string { return "" }

// Look has nothing to show.
func (s Set) Look(Change, func(io.Reader) error) error { return nil }

// Reversal refuses: nothing was ever committed.
func (h History) Reversal(string, string, []string) (Set, error) { return Set{}, unsupported() }

// Undo refuses: nothing was ever committed.
func (h History) Undo(context.Context, string, string, string, Options) (Applied, error) {
	return Applied{}, unsupported()
}

// Recover has nothing to do: nothing was ever committed.
func (h History) Recover(map[string]string) ([]Recovered, error) { return nil, nil }
