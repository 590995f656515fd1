package approval

import (
	"context"

	"palyra/internal/core/reason"
)

// Recheck returns nil while the answer of a decided call is still valid. It is called between
// the durable decision and the executor's start, so that a revocation or a freeze takes
// precedence over a queued call. Before Consume it fails for every answer that must be
// consumed.
//
// The error is reason.GatewayFrozen once the gateway is frozen, ApprovalRevoked if the grant or
// approval was revoked, ApprovalExpired if it ended or expired, ApprovalConflict if an approval
// was not consumed by this answer, and PermitRefused for an answer that does not allow. An
// error of the store is returned unchanged. The call must not start after any error.
func (q *Requests) Recheck(ctx context.Context, a Answer) error {
	if !a.Allowed() {
		return reason.Errorf(reason.PermitRefused, "an answer of kind %q does not allow a call", a.kind)
	}
	if err := q.freezer.thawed(); err != nil {
		return err
	}
	switch a.kind {
	case ByApproval:
		return q.recheckRecord(ctx, a)
	case ByGrant:
		return q.recheckGrant(ctx, a)
	default:
		return nil
	}
}

// recheckRecord returns nil if this answer consumed the record: the record's version is then
// the answer's plus one. It also checks the grant that the same votes created, because a
// revocation of that grant applies to this call too.
func (q *Requests) recheckRecord(ctx context.Context, a Answer) error {
	rec, err := q.store.Record(ctx, a.approvalID)
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
	g, err := q.grants.Get(ctx, rec.GrantID)
	if err != nil {
		return err
	}
	if !g.RevokedAt.IsZero() {
		return grantClosed(g)
	}
	return nil
}

func (q *Requests) recheckGrant(ctx context.Context, a Answer) error {
	g, err := q.grants.Get(ctx, a.grant.ID)
	if err != nil {
		return err
	}
	return q.grants.stands(g)
}
