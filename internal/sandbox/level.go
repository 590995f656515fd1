package sandbox

import "slices"

// The levels of enforcement, the one-word summary of a run. LevelPreflight
// is the level of runs whose hosts are checked before the start and not after
// it; no backend runs so yet.
const (
	LevelNone      = "none"
	LevelPreflight = "preflight"
	LevelStrict    = "strict"
)

// ControlGroup is the layer that bounds a whole process tree.
const ControlGroup = "control_group"

// Level is strict when every layer that isolates was proved, the network
// namespace among them, and none otherwise: a word never says more than was
// read back. Only ControlGroup does not count. It bounds what a program uses
// up and not what it reaches; without it the same limits hold per process, and
// a report lists that under downgrades.
func Level(requested, applied []string) string {
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
	if isolating == 0 {
		return LevelNone
	}
	return LevelStrict
}
