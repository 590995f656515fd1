package approval

import (
	"context"
	"errors"
	"fmt"

	"palyra/internal/event"
	"palyra/internal/reason"
)

// Consume uses an answer up: an allowed record becomes consumed, a grant
// counts one use. That and the extra events (the `decided` of the call) are
// one unit: either all of it is durable when Consume returns nil, or none of
// it is kept. For NotNeeded only the extra events are written.
//
// When somebody was faster the error is reason.ApprovalRevoked,
// ApprovalExpired or ApprovalConflict; while the gateway is frozen it is
// GatewayFrozen; an answer that does not allow is PermitRefused.
func (d *Desk) Consume(ctx context.Context, a Answer, extra ...event.Draft) error {
	if err := ctx.Err(); err != nil {
		return reason.Errorf(reason.Cancelled, "the call ended before it was decided: %w", err)
	}
	switch a.kind {
	case ByApproval:
		return d.consumeRecord(ctx, a, extra)
	case ByGrant:
		return d.consumeGrant(ctx, a, extra)
	case NotAsked:
		return d.update(ctx, func(tx Tx) error {
			tx.Emit(extra...)
			return thawed(tx)
		})
	default:
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q allows nothing", a.kind)
	}
}

func (d *Desk) consumeRecord(ctx context.Context, a Answer, extra []event.Draft) error {
	var after Record
	err := d.update(ctx, func(tx Tx) error {
		if err := thawed(tx); err != nil {
			return err
		}
		var err error
		after, err = transition(tx, step{
			id: a.approvalID, from: Allowed, version: a.version, to: Consumed, at: d.now(),
			actor: daemon, note: "used by one call", events: stateEvents(event.Consumed, Allowed),
		})
		if err != nil {
			return err
		}
		if after.CallDigest != a.callDigest {
			return reason.Errorf(reason.BindingMismatch, "approval %s is for call %s, not %s", after.ID, after.CallDigest, a.callDigest)
		}
		tx.Emit(extra...)
		return nil
	})
	if errors.Is(err, errLate) {
		err = d.expireNow(ctx, a.approvalID)
	}
	if err != nil {
		return lost(err)
	}
	d.settle(after)
	return nil
}

// lost gives the conflict of a use its own reason.
func lost(err error) error {
	var e *reason.Error
	if !errors.As(err, &e) || e.Code != reason.ApprovalConflict {
		return err
	}
	code := e.Code
	switch State(e.Fields["state"]) {
	case Revoked:
		code = reason.ApprovalRevoked
	case Expired:
		code = reason.ApprovalExpired
	}
	return &reason.Error{Code: code, Message: e.Message, Fields: e.Fields}
}

func (d *Desk) consumeGrant(ctx context.Context, a Answer, extra []event.Draft) error {
	if err := d.stands(a.grant); err != nil {
		return err
	}
	var after Grant
	err := d.update(ctx, func(tx Tx) error {
		if err := thawed(tx); err != nil {
			return err
		}
		var err error
		after, err = d.useGrant(tx, a)
		if err == nil {
			tx.Emit(extra...)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.keepGrant(after)
	return nil
}

func (d *Desk) useGrant(tx Tx, a Answer) (Grant, error) {
	now := d.now()
	g, err := tx.Grant(a.grant.ID)
	if err != nil {
		return g, notFound(err, "grant", a.grant.ID)
	}
	if !g.Live(now) {
		return g, grantClosed(g)
	}
	return changeGrant(tx, a.grant.ID, func(g *Grant) {
		g.Uses++
		g.LastUsedAt = now
	}, grantEvents(event.GrantUsed, g.Principal.String(), func(g Grant) any {
		return GrantUsedPayload{GrantID: g.ID, ApprovalID: g.ApprovalID, CallDigest: a.callDigest, Uses: g.Uses}
	}))
}

// Release gives an answer back that its call will not consume, so that a
// repeated identical call may have it at once rather than after Limits.Claim.
func (d *Desk) Release(a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.open[a.approvalID]; ok && a.kind == ByApproval && e.rec.Version == a.version {
		e.claimedUntil = d.now()
	}
}

// Recheck returns nil while a consumed answer is still good: the gateway is
// not frozen, and the grant it came from was not revoked and has not ended. A
// call that was decided and is queued asks again right before it starts, so
// that a revoke beats it.
func (d *Desk) Recheck(ctx context.Context, a Answer) error {
	if !a.Allowed() {
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q allows nothing", a.kind)
	}
	if state, frozen := d.Frozen(ctx); frozen {
		return frozenError(&state)
	}
	if a.kind != ByGrant {
		return nil
	}
	g, err := d.store.Grant(ctx, a.grant.ID)
	if err != nil {
		return fmt.Errorf("checking the grant: %w", notFound(err, "grant", a.grant.ID))
	}
	return d.stands(g)
}
