// Package places creates the directories that a sandbox writes to: for a daemon in its state
// directory, for a single run in a temporary one.
package places

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// Places are the directories that a sandbox writes to.
type Places struct {
	// Layers contains the copies of workspaces of runs.
	Layers string
	// Quarantine contains protected files that programs created in a workspace with direct
	// writes.
	Quarantine string
	// Undo contains the content that commits replaced.
	Undo string
	// UserRecord is the file that keeps the choice of the sandboxes' users, "" for none.
	UserRecord string
	// Log receives errors of carried connections; nil disables it.
	Log *slog.Logger
}

// LayersDir returns the directory with the layers of all daemons of a state directory.
func LayersDir(stateDir string) string { return filepath.Join(stateDir, "sandbox") }

// Make creates the directories for this daemon's runs. The mark distinguishes them from runs of
// a killed daemon.
func Make(stateDir string) (at Places, remove func() error, err error) {
	at = Places{
		Layers: filepath.Join(LayersDir(stateDir), mark()), Quarantine: filepath.Join(stateDir, "quarantine"), Undo: filepath.Join(stateDir, "undo"),
		UserRecord: filepath.Join(LayersDir(stateDir), "users"),
	}
	for _, dir := range []string{at.Layers, at.Quarantine, at.Undo} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Places{}, nil, reason.Errorf(reason.ConfigInvalid, "creating a directory for sandboxes: %w", err).
				WithRemedy("Give the user of palyrad write access to %s.", stateDir)
		}
	}
	return at, func() error { return os.RemoveAll(at.Layers) }, nil
}

// Temporary creates directories below base that are removed together.
func Temporary(base string) (at Places, remove func() error, err error) {
	dir, err := os.MkdirTemp(base, pattern())
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	var held io.Closer
	if err == nil {
		held, err = hold(dir)
	}
	at = Places{Layers: filepath.Join(dir, "layers"), Quarantine: filepath.Join(dir, "quarantine"), Undo: filepath.Join(dir, "undo")}
	for _, part := range []string{at.Layers, at.Quarantine, at.Undo} {
		if err == nil {
			err = os.Mkdir(part, 0o700)
		}
	}
	if err != nil {
		if held != nil {
			err = errors.Join(err, held.Close())
		}
		return Places{}, nil, reason.Errorf(reason.SandboxUnavailable, "creating a directory for the sandbox: %w", err).
			WithRemedy("Give the current user write access to %s.", base)
	}
	return at, func() error { return errors.Join(os.RemoveAll(dir), held.Close()) }, nil
}
