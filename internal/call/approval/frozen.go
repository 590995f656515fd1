package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/core/access"
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

// Frozen returns the freeze, and whether the gateway is frozen.
func (d *Desk) Frozen(context.Context) (FreezeState, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen == nil {
		return FreezeState{}, false
	}
	return *d.frozen, true
}

// thawed returns an error if the gateway is frozen in the view of the unit.
func thawed(tx Tx) error {
	state, err := tx.Freeze()
	if err != nil {
		return err
	}
	if state != nil {
		return frozenError(state)
	}
	return nil
}

// thawedFor is thawed, limited to the subject types that a freeze stops.
func thawedFor(tx Tx, t SubjectType) error {
	if !heldByFreeze(t) {
		return nil
	}
	return thawed(tx)
}

func frozenError(state *FreezeState) *reason.Error {
	content := fmt.Sprintf("%s froze the gateway at %s", state.By, state.At.Format(time.RFC3339))
	if state.Reason != "" {
		content += ": " + text.Visible(state.Reason)
	}
	return reason.Errorf(reason.GatewayFrozen, "%s", content)
}
