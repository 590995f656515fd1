package approval

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// FreezeState is the actor, time and reason of a freeze of all dispatch.
type FreezeState struct {
	By     access.Principal `json:"by"`
	Reason string           `json:"reason"`
	// At is in UTC.
	At time.Time `json:"at"`
}

// Freezer freezes all dispatch and ends the freeze. It is safe for concurrent use. Units MUST
// check the freeze again with thawedFor.
type Freezer struct {
	store Store
	guard change.Guard
	now   func() time.Time

	// changing keeps state in the order of the store's units.
	changing sync.Mutex
	state    atomic.Pointer[FreezeState]
}

// Frozen returns the freeze, and whether the gateway is frozen.
func (f *Freezer) Frozen(context.Context) (FreezeState, bool) {
	if state := f.state.Load(); state != nil {
		return *state, true
	}
	return FreezeState{}, false
}

// thawed returns an error if the gateway is frozen.
func (f *Freezer) thawed() error { return refuseFrozen(f.state.Load()) }

// thawedFor returns an error if a freeze that stops the subject type is in force in the view of
// the unit.
func thawedFor(tx Tx, t SubjectType) error {
	if !heldByFreeze(t) {
		return nil
	}
	return thawed(tx)
}

func thawed(tx Tx) error {
	state, err := tx.Freeze()
	if err != nil {
		return err
	}
	return refuseFrozen(state)
}

func refuseFrozen(state *FreezeState) error {
	if state == nil {
		return nil
	}
	content := fmt.Sprintf("%s froze the gateway at %s", state.By, state.At.Format(time.RFC3339))
	if state.Reason != "" {
		content += ": " + text.Visible(state.Reason)
	}
	return reason.Errorf(reason.GatewayFrozen, "%s", content)
}
