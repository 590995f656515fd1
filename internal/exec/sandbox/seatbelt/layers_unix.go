//go:build darwin || linux

package seatbelt

import "palyra/internal/exec/sandbox"

// The layers, as attestations name them.
const (
	// layerFiles is proved by a file outside that can be neither read nor written from inside.
	layerFiles = "seatbelt_files"
	// layerProtected is proved by a name that cannot be created: a protected one in a Direct
	// workspace, any name in others.
	layerProtected = "seatbelt_workspace"
	// layerNetwork is proved by a listener of the daemon that cannot be reached from inside.
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

// limitations lists the isolation that the system cannot provide; every report contains them.
var limitations = []string{
	"memory: macOS enforces no memory limit on a process tree",
	"disk: the writes of a run are limited per file, not in total",
	"control_group: processor time is limited per process; the number of processes is checked periodically",
	"process_tree: a process that leaves its session and its parent between two checks is not found, nor is any process when palyrad itself is killed",
	"hard_links: a file of a direct workspace that has another name outside is the same file there",
}
