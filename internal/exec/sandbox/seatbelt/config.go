// Package seatbelt implements Tier C on macOS: a program under a Seatbelt profile that
// sandbox-exec puts in force. Before the program starts, palyrad itself runs inside as a small
// helper. It sets limits, tries actions that the profile forbids, and reports the results. The
// runner lets the program start only if every layer was proved.
package seatbelt

// ChildCommand is the hidden subcommand of palyrad that calls Child.
const ChildCommand = "sandbox-child"

// Config configures the runner. Its zero value runs nothing.
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
