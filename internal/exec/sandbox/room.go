package sandbox

import (
	"cmp"
	"fmt"
)

// Reserve is what palyrad keeps for itself of what bounds it: programs together
// get the rest. A zero field is derived from what there is.
type Reserve struct {
	Processes int
	// Memory is in bytes.
	Memory int64
}

// Room is what the settings say of all runs together.
type Room struct {
	Reserve Reserve
	// Concurrent is how many run at once; 0 is as many as fit.
	Concurrent int
	// Each are the limits of one run, as the settings have them.
	Each Limits
}

// Share is what all runs together may use. A zero field means that nothing is
// known to bound it.
type Share struct {
	Processes int
	// Memory is in bytes.
	Memory int64
}

// The smallest share, in which one program still runs, and between what bounds
// a reserve is an eighth of what there is.
const (
	leastProcesses, leastMemory             = 32, 64 << 20
	leastReserved, mostReserved             = 64, 512
	leastReservedMemory, mostReservedMemory = 256 << 20, 1 << 30
	leastAtOnce, mostAtOnce                 = 2, 32
	reservedPart                            = 8
)

// Of takes the reserve from what bounds palyrad and its runs together.
func (r Reserve) Of(bounds Share) Share {
	return Share{
		Processes: rest(bounds.Processes, r.Processes, leastReserved, mostReserved, leastProcesses),
		Memory:    rest(bounds.Memory, r.Memory, leastReservedMemory, mostReservedMemory, leastMemory),
	}
}

// rest is what a reserve leaves of all. One that is derived leaves at least half.
func rest[N int | int64](all, reserve, low, high, least N) N {
	if all == 0 {
		return 0
	}
	if reserve == 0 {
		reserve = min(max(all/reservedPart, low), high, all/2)
	}
	return max(all-reserve, min(least, all))
}

// AtOnce is how many runs go on at once where nothing but limits of each process
// bounds them: as many as fit with all that each may use, within bounds.
func (r Room) AtOnce(s Share) int {
	if r.Concurrent > 0 {
		return r.Concurrent
	}
	each, fit := r.Each.OrDefault(), mostAtOnce
	if s.Processes > 0 {
		fit = min(fit, s.Processes/each.Processes)
	}
	if s.Memory > 0 {
		fit = int(min(int64(fit), s.Memory/each.Memory))
	}
	return max(fit, leastAtOnce)
}

// Part is what one of that many runs may use of a share; a zero field means no
// bound.
func (s Share) Part(runs int) Share {
	return Share{Processes: s.Processes / max(runs, 1), Memory: s.Memory / int64(max(runs, 1))}
}

// Tight is a sentence saying that programs at their limits do not fit beside
// palyrad: as many as the settings let run at once, or two where they do not say;
// "" when they fit.
func (r Room) Tight(bounds Share) string {
	each, share, n := r.Each.OrDefault(), r.Reserve.Of(bounds), cmp.Or(r.Concurrent, leastAtOnce)
	switch {
	case share.Processes > 0 && n*each.Processes > share.Processes:
		return fmt.Sprintf("%d programs at once, of %d processes each, want %d, and palyrad can leave all of them %d of the %d that it may have itself",
			n, each.Processes, n*each.Processes, share.Processes, bounds.Processes)
	case share.Memory > 0 && int64(n)*each.Memory > share.Memory:
		const mib = 1 << 20
		return fmt.Sprintf("%d programs at once, of %d MiB each, want %d MiB, and palyrad can leave all of them %d of the %d MiB that it may have itself",
			n, each.Memory/mib, int64(n)*each.Memory/mib, share.Memory/mib, bounds.Memory/mib)
	}
	return ""
}
