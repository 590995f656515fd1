package resume

import (
	"iter"
	"slices"
)

// openCalls holds the calls that a client may resume. Calls.mu is held during each method.
// callsInMemory is the implementation for one process; several replicas need one that they
// share.
type openCalls interface {
	// of returns the calls with a key, the oldest first.
	of(k key) []*heldCall
	add(v *heldCall)
	// remove ignores a call that is not held.
	remove(v *heldCall)
	all() iter.Seq[*heldCall]
}

type callsInMemory map[key][]*heldCall

func (m callsInMemory) of(k key) []*heldCall { return m[k] }

func (m callsInMemory) add(v *heldCall) { m[v.key] = append(m[v.key], v) }

func (m callsInMemory) remove(v *heldCall) {
	rest := slices.DeleteFunc(m[v.key], func(other *heldCall) bool { return other == v })
	if m[v.key] = rest; len(rest) == 0 {
		delete(m, v.key)
	}
}

func (m callsInMemory) all() iter.Seq[*heldCall] {
	return func(yield func(*heldCall) bool) {
		for _, list := range m {
			for _, v := range list {
				if !yield(v) {
					return
				}
			}
		}
	}
}
