package sandbox

import (
	"slices"

	"palyra/internal/core/tool"
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
	// NetworkNamespace is a network of the run's own. It leads nowhere but to the
	// listeners of palyrad's proxy, and without hosts has none.
	NetworkNamespace = "network_namespace"
	// SeatbeltNetwork is macOS's refusal of every connection.
	SeatbeltNetwork = "seatbelt_network"
)

// Level is the isolation level of a run. It is none unless layers were requested
// and the read-back proved all of them. Then it is strict in mode egress.Strict
// with NetworkNamespace or SeatbeltNetwork among the layers, preflight in mode
// egress.Preflight, and none in all other cases.
//
// ControlGroup does not count: it bounds what a program uses up and not what it
// reaches. Without it the same limits hold per process, and a report lists that
// under downgrades.
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

// Enforcement is what a report says of isolation that was asked for and reached, by a run
// in this mode.
func (r Report) Enforcement(mode egress.Mode) tool.Enforcement {
	return tool.Enforcement{
		Level:     Level(mode, r.Requested, r.Applied),
		Requested: append([]string{}, r.Requested...), Applied: append([]string{}, r.Applied...), Downgrades: append([]string{}, r.Downgrades...),
	}
}
