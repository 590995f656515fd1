package identity

import (
	"slices"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// OpenWork ends what devices and members started before a change took their permission. The
// owners of streams, runs and tokens register the functions that end them.
type OpenWork struct {
	dir *Directory

	// mu guards the fields below.
	mu    sync.RWMutex
	onEnd []func(Device, *reason.Error)
	onCut []func(access.Principal, *reason.Error)
}

// OnEnd registers a function that is called for every device that was revoked, or whose member
// was disabled or lost permissions, so that the device's live streams can end. The error
// contains the reason. Register before serving.
func (w *OpenWork) OnEnd(fn func(Device, *reason.Error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onEnd = append(w.onEnd, fn)
}

// OnCut registers a function that is called for every member that was disabled or removed, or
// lost permissions, so that work authorized by credentials other than its devices can end.
// Register before serving.
func (w *OpenWork) OnCut(fn func(access.Principal, *reason.Error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onCut = append(w.onCut, fn)
}

// end ends the open work of a device.
func (w *OpenWork) end(dev Device, why *reason.Error) {
	w.mu.RLock()
	onEnd := slices.Clone(w.onEnd)
	w.mu.RUnlock()
	for _, fn := range onEnd {
		fn(dev, why)
	}
}

// endRevoked ends the open streams of a revoked device.
func (w *OpenWork) endRevoked(dev Device) {
	w.end(dev, revoked("device %s was revoked", dev.ID))
}

// Cut ends the open work of a member, so that no work authorized by its previous state
// continues.
func (w *OpenWork) Cut(p access.Principal, why *reason.Error) {
	for _, dev := range w.dir.devicesOf(p) {
		w.end(dev, why)
	}
	w.mu.RLock()
	onCut := slices.Clone(w.onCut)
	w.mu.RUnlock()
	for _, fn := range onCut {
		fn(p, why)
	}
}

// cutWithAgents calls Cut for a member that may no longer act, and for its agents.
func (w *OpenWork) cutWithAgents(p access.Principal) {
	for _, m := range w.dir.registry.List() {
		if m.Principal == p || m.Owner == p {
			w.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "%s was disabled", p))
		}
	}
}
