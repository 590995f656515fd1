package approval

import (
	"context"
	"errors"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Consume uses an answer up: an allowed record becomes consumed, a grant
// counts one use. That and the extra events (the `decided` of the call) are
// one unit: either all of it is durable when Consume returns nil, or none of
// it is kept.
//
// The error is reason.ApprovalRevoked, ApprovalExpired or ApprovalConflict when the
// record or grant was revoked, ran out or was used before; GatewayFrozen while the
// gateway is frozen; PermitRefused for an answer that has nothing to use up, such as
// NotNeeded or one that does not allow.
func (d *Desk) Consume(ctx context.Context, a Answer, extra ...event.Draft) error {
	if err := ctx.Err(); err != nil {
		return reason.Errorf(reason.Cancelled, "the call ended before it was decided: %w", err)
	}
	switch a.kind {
	case ByApproval:
		return d.consumeRecord(ctx, a, extra)
	case ByGrant:
		return d.consumeGrant(ctx, a, extra)
	default:
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q has nothing to use up", a.kind)
	}
}

func (d *Desk) consumeRecord(ctx context.Context, a Answer, extra []event.Draft) error {
	var after Record
	err := d.update(ctx, func(tx Tx) error {
		if err := thawedFor(tx, a.subjectType); err != nil {
			return err
		}
		var err error
		after, err = transition(tx, step{
			id: a.approvalID, from: Allowed, version: a.version, to: Consumed, at: d.now(),
			actor: daemon, note: usedBy(a.subjectType), events: stateEvents(event.Consumed, Allowed),
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

func usedBy(t SubjectType) string {
	if GatewayTool(t) != "" {
		return "used by one change"
	}
	return "used by one call"
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
		return GrantUsedPayload{
			GrantID: g.ID, ApprovalID: g.ApprovalID, ProposalID: a.proposalID, CallDigest: a.callDigest, Uses: g.Uses, MostUses: g.MostUses,
		}
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

// Recheck returns nil while the answer of a call that was decided is still
// good. It is for the moment between the durable decision and the executor's
// start, so that a revoke or a freeze beats a call that is queued. Before
// Consume it fails for every answer that has to be consumed.
//
// It is reason.GatewayFrozen once the gateway is frozen, ApprovalRevoked when
// the grant or approval was revoked, ApprovalExpired when it ended or ran out,
// ApprovalConflict when an approval was not used by this answer, and
// PermitRefused for an answer that does not allow. An error of the store is
// returned as it is. None of them lets the call start.
func (d *Desk) Recheck(ctx context.Context, a Answer) error {
	if !a.Allowed() {
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q allows nothing", a.kind)
	}
	if state, frozen := d.Frozen(ctx); frozen {
		return frozenError(&state)
	}
	switch a.kind {
	case ByApproval:
		return d.recheckRecord(ctx, a)
	case ByGrant:
		return d.recheckGrant(ctx, a)
	default:
		return nil
	}
}

// recheckRecord returns nil if the record is consumed and this answer consumed it:
// its version is then the answer's plus one. It also checks the grant that the same
// votes minted, since whoever revoked that meant this call, too.
func (d *Desk) recheckRecord(ctx context.Context, a Answer) error {
	rec, err := d.store.Record(ctx, a.approvalID)
	switch {
	case err != nil:
		return notFound(err, "approval", a.approvalID)
	case rec.State == Allowed:
		return reason.Errorf(reason.ApprovalConflict, "approval %s was not used for the call that wants to start", rec.ID)
	case rec.State != Consumed || rec.Version != a.version+1:
		return lost(conflict(rec))
	case rec.GrantID == "":
		return nil
	}
	g, err := d.store.Grant(ctx, rec.GrantID)
	if err != nil {
		return notFound(err, "grant", rec.GrantID)
	}
	if !g.RevokedAt.IsZero() {
		return grantClosed(g)
	}
	return nil
}

func (d *Desk) recheckGrant(ctx context.Context, a Answer) error {
	g, err := d.store.Grant(ctx, a.grant.ID)
	if err != nil {
		return notFound(err, "grant", a.grant.ID)
	}
	return d.stands(g)
}
