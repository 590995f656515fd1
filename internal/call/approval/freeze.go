package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// FreezeState says who stopped all dispatch, when and why.
type FreezeState struct {
	By     access.Principal `json:"by"`
	Reason string           `json:"reason"`
	// At is in UTC.
	At time.Time `json:"at"`
}

// Freeze stops new asks, suspends grants, and lets nothing be consumed until
// Thaw. It is journaled and survives a restart. Freezing twice keeps the
// first. The caller's permission is checked before.
func (d *Desk) Freeze(ctx context.Context, caller access.Caller, why string) error {
	if err := checkReason(why); err != nil {
		return err
	}
	d.freezing.Lock()
	defer d.freezing.Unlock()
	var state *FreezeState
	err := d.update(ctx, func(tx Tx) error {
		var err error
		if state, err = tx.Freeze(); err != nil || state != nil {
			return err
		}
		state = &FreezeState{By: caller.Principal, Reason: why, At: d.now()}
		if err := tx.SetFreeze(state); err != nil {
			return err
		}
		return emitFreeze(ctx, tx, event.Frozen, caller.Principal, *state)
	})
	if err != nil {
		return fmt.Errorf("freezing: %w", err)
	}
	d.setFrozen(state)
	return nil
}

// Thaw lets dispatch go on. Only a user may thaw. Thawing what is not frozen
// does nothing.
func (d *Desk) Thaw(ctx context.Context, caller access.Caller) error {
	if caller.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not thaw: only users may", caller.Principal)
	}
	d.freezing.Lock()
	defer d.freezing.Unlock()
	err := d.update(ctx, func(tx Tx) error {
		state, err := tx.Freeze()
		if err != nil || state == nil {
			return err
		}
		if err := tx.SetFreeze(nil); err != nil {
			return err
		}
		return emitFreeze(ctx, tx, event.Thawed, caller.Principal, *state)
	})
	if err != nil {
		return fmt.Errorf("thawing: %w", err)
	}
	d.setFrozen(nil)
	return nil
}

// ThawStored ends the freeze in a store whose daemon does not run, on the word of the
// gateway's host. It is reason.NotFound when there is none.
func ThawStored(ctx context.Context, store Store) (FreezeState, error) {
	var was FreezeState
	err := store.Update(ctx, func(tx Tx) error {
		state, err := tx.Freeze()
		switch {
		case err != nil:
			return err
		case state == nil:
			return reason.Errorf(reason.NotFound, "the gateway is not frozen")
		}
		was = *state
		if err := tx.SetFreeze(nil); err != nil {
			return err
		}
		drafted, err := draft(event.Thawed, "", "", daemon, "", FreezePayload{By: hostOf(), Reason: was.Reason, Since: was.At})
		if err != nil {
			return err
		}
		tx.Emit(drafted)
		return nil
	})
	if err != nil {
		return was, fmt.Errorf("thawing: %w", err)
	}
	return was, nil
}

// hostOf is the principal of what is done on the gateway's host.
func hostOf() access.Principal { return access.Principal{Kind: access.KindService, Name: "palyrad"} }

func emitFreeze(ctx context.Context, tx Tx, code event.Code, by access.Principal, state FreezeState) error {
	drafted, err := draft(code, "", "", by.String(), "", FreezePayload{By: by, Reason: state.Reason, Since: state.At})
	if err == nil {
		drafted, err = drafted.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return err
	}
	tx.Emit(drafted)
	return nil
}

func (d *Desk) setFrozen(state *FreezeState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = state
}

// Frozen returns the freeze and whether there is one.
func (d *Desk) Frozen(context.Context) (FreezeState, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen == nil {
		return FreezeState{}, false
	}
	return *d.frozen, true
}

// thawed returns nil unless the gateway is frozen as the unit sees it.
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

// thawedFor is thawed for what a freeze stops.
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
