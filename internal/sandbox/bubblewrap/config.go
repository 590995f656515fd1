// Package bubblewrap is Tier C on Linux: a program in namespaces of its own,
// built by bubblewrap and finished by palyra-init, the helper that this package
// carries with it. The runner prepares everything outside, judges what the
// helper read back inside before it lets the program start, bounds it while it
// runs, and leaves no process behind.
package bubblewrap

import "palyra/internal/sandbox"

// DefaultUID is the user and group that sandboxes run as when the daemon is
// root. It belongs to no account and no system range.
const DefaultUID = 64123

// Config says how sandboxes are built. Its zero value runs nothing.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// Bwrap is the path of bubblewrap, "" for /usr/bin/bwrap.
	Bwrap string
	// UID and GID are those of sandboxes when the daemon is root; 0 means
	// DefaultUID. An ordinary user's daemon runs them as that user.
	UID, GID int
}

var _ sandbox.Runner = (*Runner)(nil)
