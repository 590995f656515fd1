package sandbox

import (
	"slices"

	"palyra/internal/egress"
)

// The levels of enforcement, the one-word summary of a run. LevelPreflight is
// the level of runs whose hosts were checked before the start and not after it.
const (
	LevelNone      = "none"
	LevelPreflight = "preflight"
	LevelStrict    = "strict"
)

// Layers that say something of their own.
const (
	// ControlGroup bounds a whole process tree.
	ControlGroup = "control_group"
	// NetworkNamespace is a network without a way out.
	NetworkNamespace = "network_namespace"
	// SeatbeltNetwork is macOS's refusal of every connection.
	SeatbeltNetwork = "seatbelt_network"
)

// Level is strict when every layer that isolates was proved, that of the network
// among them, and none otherwise: a word never says more than was
// read back. Only ControlGroup does not count. It bounds what a program uses
// up and not what it reaches; without it the same limits hold per process, and
// a report lists that under downgrades. Without a network namespace, or what
// macOS has for it, the level is preflight at most, in that mode.
func Level(mode egress.Mode, requested, applied []string) string {
	isolating := 0
	for _, layer := range requested {
		if layer == ControlGroup {
			continue
		}
		if !slices.Contains(applied, layer) {
			return LevelNone
		}
		isolating++
	}
	switch {
	case isolating == 0:
		return LevelNone
	case mode == egress.Strict && (slices.Contains(applied, NetworkNamespace) || slices.Contains(applied, SeatbeltNetwork)):
		return LevelStrict
	case mode == egress.Preflight:
		return LevelPreflight
	}
	return LevelNone
}
