// Package seatbelt is Tier C on macOS: a program under a Seatbelt profile that
// sandbox-exec puts in force. Inside, before the program starts, palyrad itself
// in the guise of a small helper sets limits, tries what the profile forbids,
// and reports what came of it; the runner judges that, and lets the program
// start only when every layer was seen to hold.
package seatbelt

import "palyra/internal/sandbox"

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

var _ sandbox.Runner = (*Runner)(nil)

// The layers, as attestations name them.
const (
	// layerFiles is proved by a file outside that can be neither read nor
	// written from inside.
	layerFiles = "seatbelt_files"
	// layerProtected is proved by a protected name that cannot be made in a
	// Direct workspace, and by any name that cannot in another.
	layerProtected = "seatbelt_workspace"
	// layerNetwork is proved by a listener of the daemon's that cannot be
	// reached from inside.
	layerNetwork     = sandbox.SeatbeltNetwork
	layerRlimits     = "rlimits"
	layerDescriptors = "closed_descriptors"
	layerSession     = "new_session"
)

// requested lists the layers of a run, with the host's network or without.
func requested(network bool) []string {
	list := []string{layerFiles, layerProtected, layerRlimits, layerDescriptors, layerSession}
	if !network {
		list = append(list, layerNetwork)
	}
	return list
}

// limitations are what the system has no means for; every report lists them.
var limitations = []string{
	"memory: macOS enforces no limit of memory on a process tree",
	"disk: what a run writes is bounded per file and not in sum",
	"control_group: processor time is bounded per process; the number of processes is looked at from time to time",
	"process_tree: a process that leaves its session and its parent between two looks is not found, nor is any when palyrad itself is killed",
	"hard_links: a file of a direct workspace that has another name outside is the same file there",
}
