package approval

import (
	"context"
	"errors"
	"time"

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
func (q *Requests) Consume(ctx context.Context, a Answer, extra ...event.Draft) error {
	if err := ctx.Err(); err != nil {
		return reason.Errorf(reason.Cancelled, "the call ended before it was decided: %w", err)
	}
	switch a.kind {
	case ByApproval:
		return q.consumeRecord(ctx, a, extra)
	case ByGrant:
		return q.grants.consume(ctx, a, extra)
	default:
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q cannot be consumed", a.kind)
	}
}

func (q *Requests) consumeRecord(ctx context.Context, a Answer, extra []event.Draft) error {
	note := "used by one call"
	if GatewayTool(a.subjectType) != "" {
		note = "used by one change"
	}
	var after Record
	err := update(ctx, q.store, func(tx Tx) error {
		if err := thawedFor(tx, a.subjectType); err != nil {
			return err
		}
		var err error
		after, err = transition(tx, step{
			id: a.approvalID, from: Allowed, version: a.version, to: Consumed, at: q.records.now(),
			actor: daemon, note: note, events: stateEvents(event.Consumed, Allowed),
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
		err = q.records.expireNow(ctx, a.approvalID)
	}
	if err != nil {
		return lost(err)
	}
	q.records.settle(after)
	return nil
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

// consume counts one use. A grant without remaining uses stays open until it expires: the
// call with the last use may not have started, and revoking the grant must still stop it.
func (s *Grants) consume(ctx context.Context, a Answer, extra []event.Draft) error {
	if err := s.stands(a.grant); err != nil {
		return err
	}
	var after Grant
	err := update(ctx, s.store, func(tx Tx) error {
		if err := thawed(tx); err != nil {
			return err
		}
		var err error
		after, err = useGrant(tx, a, s.now())
		if err == nil {
			tx.Emit(extra...)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.keep(after)
	return nil
}

func useGrant(tx Tx, a Answer, now time.Time) (Grant, error) {
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
func (q *Requests) Release(a Answer) {
	if a.kind == ByApproval {
		q.open.release(a.approvalID, a.version)
	}
}
