// Package places makes the directories that a sandbox writes to: for a daemon in
// its state directory, for a single run in a temporary one.
package places

import (
	"log/slog"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Places are where a sandbox writes.
type Places struct {
	// Layers is for what runs write to their copies of workspaces.
	Layers string
	// Quarantine is for protected files that programs made in a workspace that
	// they wrote to directly.
	Quarantine string
	// Undo is for what commits replaced.
	Undo string
	// Log gets what goes wrong while connections are carried; nil means nowhere.
	Log *slog.Logger
}

// LayersDir holds the layers of all daemons of a state directory.
func LayersDir(stateDir string) string { return filepath.Join(stateDir, "sandbox") }

// Make makes the directories of this daemon's runs. Those of a daemon that was
// killed are told apart by their mark.
func Make(stateDir string) (at Places, remove func() error, err error) {
	at = Places{
		Layers: filepath.Join(LayersDir(stateDir), mark()), Quarantine: filepath.Join(stateDir, "quarantine"), Undo: filepath.Join(stateDir, "undo"),
	}
	for _, dir := range []string{at.Layers, at.Quarantine, at.Undo} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Places{}, nil, reason.Errorf(reason.ConfigInvalid, "making a directory for sandboxes: %w", err).
				WithRemedy("Let the user that palyrad runs as write to %s.", stateDir)
		}
	}
	return at, func() error { return os.RemoveAll(at.Layers) }, nil
}

// Temporary makes directories below base that are removed together.
func Temporary(base string) (at Places, remove func() error, err error) {
	dir, err := os.MkdirTemp(base, mark()+"-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	at = Places{Layers: filepath.Join(dir, "layers"), Quarantine: filepath.Join(dir, "quarantine"), Undo: filepath.Join(dir, "undo")}
	for _, part := range []string{at.Layers, at.Quarantine, at.Undo} {
		if err == nil {
			err = os.Mkdir(part, 0o700)
		}
	}
	if err != nil {
		return Places{}, nil, reason.Errorf(reason.SandboxUnavailable, "making a directory for the sandbox: %w", err).
			WithRemedy("Let the user who runs this write to %s.", base)
	}
	return at, func() error { return os.RemoveAll(dir) }, nil
}
