// Package seatbelt is Tier C on macOS: a program under a Seatbelt profile that
// sandbox-exec puts in force. Inside, before the program starts, palyrad itself
// in the guise of a small helper sets limits, tries what the profile forbids,
// and reports what came of it; the runner judges that, and lets the program
// start only when every layer was seen to hold.
package seatbelt

// ChildCommand is the hidden subcommand of palyrad that calls Child.
const ChildCommand = "sandbox-child"

// Config says how programs are run. Its zero value runs nothing.
type Config struct {
	// Enabled is process_runner.enabled.
	Enabled bool
	// RunDir is where each run gets a directory of its own, which is removed
	// after it; "" is the system's directory for temporary files.
	RunDir string
	// ReadRoots are directories, beside those of the system, that programs
	// may read and run from: toolchains installed elsewhere.
	ReadRoots []string
}
