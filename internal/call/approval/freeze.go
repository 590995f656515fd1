package approval

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Freeze rejects new asks, suspends grants, and stops the consumption of answers until Thaw. It
// is journaled and survives a restart. A second Freeze keeps the state of the first. The caller
// must have been authorized before.
func (f *Freezer) Freeze(ctx context.Context, caller access.Caller, why string) error {
	if err := checkReason(why); err != nil {
		return err
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	var state *FreezeState
	err := update(ctx, f.store, func(tx Tx) error {
		var err error
		if state, err = tx.Freeze(); err != nil || state != nil {
			return err
		}
		state = &FreezeState{By: caller.Principal, Reason: why, At: f.now()}
		if err := tx.SetFreeze(state); err != nil {
			return err
		}
		return emitFreeze(ctx, tx, event.Frozen, caller.Principal, *state)
	})
	if err != nil {
		return fmt.Errorf("freezing: %w", err)
	}
	f.state.Store(state)
	return nil
}

// Thaw ends the freeze. Only a user may thaw. Without a freeze it does nothing.
func (f *Freezer) Thaw(ctx context.Context, caller access.Caller) error {
	if caller.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not thaw: only users may", caller.Principal)
	}
	if err := f.guard.Check(ctx, change.Thaw); err != nil {
		return err
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	err := update(ctx, f.store, func(tx Tx) error {
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
	f.state.Store(nil)
	return nil
}

// ThawStored ends the freeze in the store of a stopped daemon, on the authority of the
// gateway's host. It returns reason.NotFound if the gateway is not frozen.
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

// hostOf is the principal for actions on the gateway's host.
func hostOf() access.Principal { return access.Principal{Kind: access.KindService, Name: "palyrad"} }

// FreezePayload is the payload of event.Frozen and event.Thawed.
type FreezePayload struct {
	By     access.Principal `json:"by"`
	Reason string           `json:"reason"`
	// Since is the time of the freeze.
	Since time.Time `json:"since"`
}

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
