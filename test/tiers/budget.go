package main

import "sync"

// budget is the limit of parallel tiers. A tier that waits for a browser or a program leaves
// processors idle, so the budget has twice as many as the machine.
type budget struct {
	mu                 sync.Mutex
	freed              *sync.Cond
	processors, memory int
	// most is the highest claim of one tier: processors and GiB of memory.
	most claim
}

// claim is the part of a budget that one tier holds.
type claim struct{ processors, memory int }

func newBudget(processors, memory int) *budget {
	b := &budget{processors: 2 * processors, memory: memory, most: claim{processors, memory}}
	b.freed = sync.NewCond(&b.mu)
	return b
}

// take waits until the tier's processors and memory are free. A tier that requires more than the
// budget gets all of it.
func (b *budget) take(t tier) claim {
	want := claim{min(processorsOf(t), b.most.processors), min(t.memory, b.most.memory)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.processors < want.processors || b.memory < want.memory {
		b.freed.Wait()
	}
	b.processors -= want.processors
	b.memory -= want.memory
	return want
}

// give returns a claim.
func (b *budget) give(c claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.processors += c.processors
	b.memory += c.memory
	b.freed.Broadcast()
}
