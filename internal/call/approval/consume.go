package approval

import (
	"context"
	"errors"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Consume uses an answer: an allowed record becomes consumed, a grant counts one use. This
// change and the extra events (the `decided` of the call) are one unit. When Consume returns
// nil, the unit is durable; otherwise it has no effect.
//
// The error is reason.ApprovalRevoked, ApprovalExpired or ApprovalConflict if the record or
// grant was revoked, expired or used before; GatewayFrozen while the gateway is frozen;
// PermitRefused for an answer that cannot be consumed, such as NotNeeded or a denial.
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
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q cannot be consumed", a.kind)
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

// lost maps the conflict error of a use to the reason code for the state of the record.
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

// consumeGrant counts one use. A grant without remaining uses stays open until it expires: the
// call with the last use may not have started, and revoking the grant must still stop it.
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

// Release returns an answer that its call will not consume. A repeated identical call can then
// get it immediately instead of after Limits.Claim.
func (d *Desk) Release(a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.open[a.approvalID]; ok && a.kind == ByApproval && e.rec.Version == a.version {
		e.claimedUntil = d.now()
	}
}

// Recheck returns nil while the answer of a decided call is still valid. It is called between
// the durable decision and the executor's start, so that a revocation or a freeze takes
// precedence over a queued call. Before Consume it fails for every answer that must be
// consumed.
//
// The error is reason.GatewayFrozen once the gateway is frozen, ApprovalRevoked if the grant or
// approval was revoked, ApprovalExpired if it ended or expired, ApprovalConflict if an approval
// was not consumed by this answer, and PermitRefused for an answer that does not allow. An
// error of the store is returned unchanged. The call must not start after any error.
func (d *Desk) Recheck(ctx context.Context, a Answer) error {
	if !a.Allowed() {
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q does not allow a call", a.kind)
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

// recheckRecord returns nil if this answer consumed the record: the record's version is then
// the answer's plus one. It also checks the grant that the same votes created, because a
// revocation of that grant applies to this call too.
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
