//go:build darwin || linux

package seatbelt

import "palyra/internal/exec/sandbox"

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
