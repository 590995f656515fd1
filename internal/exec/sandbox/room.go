package sandbox

import (
	"cmp"
	"fmt"
)

// Reserve is the part of palyrad's resources that is reserved for palyrad itself. All programs
// together get the rest. A zero field is derived from the total.
type Reserve struct {
	Processes int
	// Memory is in bytes.
	Memory int64
}

// Room contains the settings for all runs together.
type Room struct {
	Reserve Reserve
	// Concurrent is the number of concurrent runs; 0 means as many as fit.
	Concurrent int
	// Each are the configured limits of one run.
	Each Limits
}

// Share is the resource limit of all runs together. A zero field means that no limit is known.
type Share struct {
	Processes int
	// Memory is in bytes.
	Memory int64
}

// The smallest share, in which one program can still run, and the limits of a reserve, which is
// normally an eighth of the total.
const (
	leastProcesses, leastMemory             = 32, 64 << 20
	leastReserved, mostReserved             = 64, 512
	leastReservedMemory, mostReservedMemory = 256 << 20, 1 << 30
	leastAtOnce, mostAtOnce                 = 2, 32
	reservedPart                            = 8
)

// Of subtracts the reserve from the limits of palyrad and its runs together.
func (r Reserve) Of(bounds Share) Share {
	return Share{
		Processes: rest(bounds.Processes, r.Processes, leastReserved, mostReserved, leastProcesses),
		Memory:    rest(bounds.Memory, r.Memory, leastReservedMemory, mostReservedMemory, leastMemory),
	}
}

// rest subtracts a reserve from the total. A derived reserve leaves at least half.
func rest[N int | int64](all, reserve, low, high, least N) N {
	if all == 0 {
		return 0
	}
	if reserve == 0 {
		reserve = min(max(all/reservedPart, low), high, all/2)
	}
	return max(all-reserve, min(least, all))
}

// AtOnce returns the number of concurrent runs if only limits per process apply: as many as fit
// with all their limits, within bounds.
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

// Part returns the part of a share for each of that many runs; a zero field means no limit.
func (s Share) Part(runs int) Share {
	return Share{Processes: s.Processes / max(runs, 1), Memory: s.Memory / int64(max(runs, 1))}
}

// Tight returns a sentence if the programs at their limits do not fit next to palyrad, "" if they
// do. It considers the configured number of concurrent runs, or two by default.
func (r Room) Tight(bounds Share) string {
	each, share, n := r.Each.OrDefault(), r.Reserve.Of(bounds), cmp.Or(r.Concurrent, leastAtOnce)
	switch {
	case share.Processes > 0 && n*each.Processes > share.Processes:
		return fmt.Sprintf("%d programs at once, of %d processes each, need %d, but palyrad can give them only %d of its own %d",
			n, each.Processes, n*each.Processes, share.Processes, bounds.Processes)
	case share.Memory > 0 && int64(n)*each.Memory > share.Memory:
		const mib = 1 << 20
		return fmt.Sprintf("%d programs at once, of %d MiB each, need %d MiB, but palyrad can give them only %d of its own %d MiB",
			n, each.Memory/mib, int64(n)*each.Memory/mib, share.Memory/mib, bounds.Memory/mib)
	}
	return ""
}
