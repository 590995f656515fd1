package people

import (
	"sync"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// mostViews is how many views are remembered: those of the newest events.
const mostViews = 256

// viewKey is an event as a caller sees it under a set of policies.
type viewKey struct {
	seq       int64
	principal access.Principal
	// credential is the caller's device or token.
	credential string
	surface    access.Surface
	transport  access.Transport
	set        *policy.Set
}

// view is what an event is to a caller; made is closed when it is worked out.
type view struct {
	made     chan struct{}
	approval *palyrav1.Approval
	err      error
}

// Views has what happened worked out once for a caller, however many streams it has: each
// asks the store and policy.
type Views struct {
	mu    sync.Mutex
	known map[viewKey]*view
	// order are the keys of known, the oldest first.
	order []viewKey
}

// Of returns an approval as an event with a number left it for a caller; callers change
// nothing in it. work makes it for the first of the caller's streams; where that fails, each
// makes it again.
func (v *Views) Of(set *policy.Set, c access.Caller, seq int64, work func() (*palyrav1.Approval, error)) (*palyrav1.Approval, error) {
	key := viewKey{seq, c.Principal, c.DeviceID, c.Surface, c.Transport, set}
	one, first := v.find(key)
	if first {
		one.approval, one.err = work()
		close(one.made)
		return one.approval, one.err
	}
	if <-one.made; one.err != nil {
		return work()
	}
	return one.approval, nil
}

func (v *Views) find(key viewKey) (one *view, first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one, known := v.known[key]; known {
		return one, false
	}
	if v.known == nil {
		v.known = make(map[viewKey]*view)
	}
	if len(v.order) >= mostViews {
		delete(v.known, v.order[0])
		v.order = v.order[1:]
	}
	one = &view{made: make(chan struct{})}
	v.known[key], v.order = one, append(v.order, key)
	return one, true
}
