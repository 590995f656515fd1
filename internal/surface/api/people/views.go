package people

import (
	"sync"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// mostViews is the highest number of cached views. The oldest is evicted first.
const mostViews = 256

// viewKey identifies an event as seen by a caller under a policy set.
type viewKey struct {
	seq       int64
	principal access.Principal
	// credential is the caller's device or token.
	credential string
	surface    access.Surface
	transport  access.Transport
	set        *policy.Set
}

// view is an event as seen by a caller; made is closed once it is computed.
type view struct {
	made     chan struct{}
	approval *palyrav1.Approval
	err      error
}

// Views caches the view of each event per caller, because each computation reads the store and
// evaluates policy. All streams of a caller share it.
type Views struct {
	mu    sync.Mutex
	known map[viewKey]*view
	// order lists the keys of known, the oldest first.
	order []viewKey
}

// Of returns an approval as of the event with a sequence number, as seen by a caller. The
// result is shared: callers MUST NOT modify it. The first stream of the caller computes it with
// work. If work fails, each stream calls work itself.
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
