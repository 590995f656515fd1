// Package seatbelt implements Tier C on macOS: a program under a Seatbelt profile that
// sandbox-exec applies. Before the program starts, palyrad itself runs inside as a small
// helper. It sets limits, tries actions that the profile forbids, and reports the results. The
// runner starts the program only if every layer was proved.
package seatbelt

// ChildCommand is the hidden subcommand of palyrad that calls Child.
const ChildCommand = "sandbox-child"

// Config configures the runner. The zero value runs no programs.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// RunDir contains a directory for each run, which is removed after it; "" is the system's
	// directory for temporary files.
	RunDir string
	// ReadRoots are directories, in addition to the system's, that programs may read and run
	// from: separately installed toolchains.
	ReadRoots []string
}
