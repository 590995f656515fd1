package sandbox

import (
	"slices"

	"palyra/internal/egress"
)

// The levels of enforcement, the one-word summary of a run. LevelPreflight is the level of runs
// whose hosts were checked only before the start.
const (
	LevelNone      = "none"
	LevelPreflight = "preflight"
	LevelStrict    = "strict"
)

// Layers with a special meaning for the level.
const (
	// ControlGroup limits a whole process tree.
	ControlGroup = "control_group"
	// NetworkNamespace is a separate network of the run. It leads only to the listeners of
	// palyrad's proxy; without allowed hosts it has no listeners.
	NetworkNamespace = "network_namespace"
	// SeatbeltNetwork is the refusal of every connection by macOS.
	SeatbeltNetwork = "seatbelt_network"
)

// Level returns the isolation level of a run. It is none unless layers were requested and all of
// them were proved. Then it is strict in mode egress.Strict with NetworkNamespace or
// SeatbeltNetwork among the layers, preflight in mode egress.Preflight, and none in all other
// cases.
//
// ControlGroup does not count: it limits resources, not access. Without it the same limits apply
// per process, and a report lists that under downgrades.
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
