package approval

import (
	"context"
	"errors"
	"fmt"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Cancel withdraws a pending record. Its requester, the user on whose behalf it asks, and every
// user who may decide it may cancel it. For a record that is not pending the error is
// reason.ApprovalConflict.
func (r *Records) Cancel(ctx context.Context, caller access.Caller, id, why string) (Record, error) {
	return r.close(ctx, caller, id, why, Pending, r.cancel)
}

// Revoke revokes a record that was allowed and is not consumed. Every user who may cancel it or
// who voted on it may revoke it.
func (r *Records) Revoke(ctx context.Context, caller access.Caller, id, why string) (Record, error) {
	return r.close(ctx, caller, id, why, Allowed, func(ctx context.Context, rec Record, by, why string) (Record, error) {
		return r.move(ctx, step{
			id: rec.ID, from: Allowed, version: rec.Version, to: Revoked,
			actor: by, note: why, events: stateEvents(event.Revoked, Allowed),
		})
	})
}

func (r *Records) close(ctx context.Context, caller access.Caller, id, why string, from State,
	move func(context.Context, Record, string, string) (Record, error),
) (Record, error) {
	if err := checkReason(why); err != nil {
		return Record{}, err
	}
	return r.change(ctx, id, from, func(rec Record) error {
		if err := mayClose(ctx, r.judge, caller, rec); err != nil {
			return err
		}
		if rec.State != from {
			return conflict(rec)
		}
		return nil
	}, func(rec Record) (Record, error) { return move(ctx, rec, caller.Principal.String(), why) })
}

// change moves a record if the caller may do that. If a vote came in between reading and moving
// the record, and its state is unchanged, change tries again with the current record.
func (r *Records) change(ctx context.Context, id string, from State, may func(Record) error, move func(Record) (Record, error)) (Record, error) {
	for {
		rec, err := r.store.Record(ctx, id)
		if err != nil {
			return Record{}, notFound(err, "approval", id)
		}
		if err := may(rec); err != nil {
			return Record{}, err
		}
		after, err := move(rec)
		if errors.Is(err, errLate) {
			return Record{}, r.expireNow(ctx, id)
		}
		if reason.Of(err) != reason.ApprovalConflict {
			return r.live(after), err
		}
		// The record changed after it was read. If its state is the same, a vote came in, and
		// the change is checked again. The loop ends because each iteration needs another vote.
		if now, readErr := r.store.Record(ctx, id); readErr != nil || now.State != from || ctx.Err() != nil {
			return Record{}, err
		}
	}
}

// mayClose returns nil if the caller may withdraw a record. Withdrawing one's own request or
// vote needs no permission.
func mayClose(ctx context.Context, judge Judge, caller access.Caller, rec Record) error {
	p := caller.Principal
	if !p.IsZero() && (p == rec.RequestedBy || p == rec.OnBehalfOf || rec.HasVoted(p)) {
		return nil
	}
	return judge.MayDecide(ctx, caller, rec)
}

// end closes a record of a session or run that has ended: pending becomes cancelled, allowed
// becomes expired. A record that was settled otherwise is skipped.
func (r *Records) end(ctx context.Context, id, note string) error {
	for {
		rec, err := r.store.Record(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case err != nil:
			return err
		case rec.State == Pending:
			_, err = r.cancel(ctx, rec, daemon, note)
		case rec.State == Allowed:
			_, err = r.move(ctx, expiry(rec, note))
		default:
			return nil
		}
		if errors.Is(err, errLate) {
			err = r.expire(ctx, []string{id})
		}
		if reason.Of(err) != reason.ApprovalConflict {
			return err
		}
	}
}

// EndUnused ends the record of a gateway change that will not be made, with a note: pending
// becomes cancelled, allowed expired. A record that was settled otherwise is skipped.
func (r *Records) EndUnused(ctx context.Context, id, why string) error {
	return r.end(context.WithoutCancel(ctx), id, why)
}

// goneNote is the note of a record that ends at a start.
func goneNote(r Record) string {
	if r.AboutGateway() {
		return "palyrad stopped while it waited; ask again"
	}
	return "its run is gone"
}

// MarkRunsGone runs at the start of the daemon, before calls are admitted, when the requesting
// calls have all ended. Allowed records that were not consumed expire. Pending records about
// changes of a call or of the gateway expire, too, since the changes are lost. Other pending
// records stay, show RunGone, and can still be decided; a repeated identical call joins them.
func (r *Records) MarkRunsGone(ctx context.Context) error {
	for id, note := range r.gone() {
		if err := r.end(ctx, id, note); err != nil {
			return fmt.Errorf("expiring approvals of runs that are gone: %w", err)
		}
	}
	return nil
}

// gone returns the ids and notes of the records that MarkRunsGone ends.
func (r *Records) gone() map[string]string {
	ids := map[string]string{}
	r.open.each(func(rec *Record) {
		if rec.State == Allowed || rec.AboutCommit() || rec.AboutGateway() {
			ids[rec.ID] = goneNote(*rec)
		}
	})
	return ids
}

// Revoke revokes a grant immediately: a call that was allowed by it and has not started does
// not start (see Requests.Recheck). A grant may be revoked by the principal whose calls it
// covers, the user on whose behalf they are made, the users whose votes created it, and every
// user who may decide its approval. For a revoked or ended grant the error is
// reason.ApprovalConflict.
func (s *Grants) Revoke(ctx context.Context, caller access.Caller, id, why string) (Grant, error) {
	if err := checkReason(why); err != nil {
		return Grant{}, err
	}
	g, err := s.Get(ctx, id)
	if err != nil {
		return Grant{}, err
	}
	rec, err := s.store.Record(ctx, g.ApprovalID)
	if err != nil {
		return Grant{}, notFound(err, "approval", g.ApprovalID)
	}
	if err := mayClose(ctx, s.judge, caller, rec); err != nil {
		return Grant{}, err
	}
	by := caller.Principal.String()
	err = update(ctx, s.store, func(tx Tx) error {
		now := s.now()
		var err error
		g, err = changeGrant(tx, id, func(g *Grant) {
			g.RevokedAt, g.RevokedBy, g.RevokeReason = now, by, why
		}, grantEvents(event.GrantRevoked, by, func(g Grant) any {
			return GrantClosedPayload{GrantID: g.ID, ApprovalID: g.ApprovalID, By: by, Note: why, Uses: g.Uses}
		}))
		return err
	})
	if err != nil {
		return Grant{}, alreadyClosed(err)
	}
	s.keep(g)
	return g, nil
}

func alreadyClosed(err error) error {
	if code := reason.Of(err); code == reason.ApprovalRevoked || code == reason.ApprovalExpired {
		return reason.Errorf(reason.ApprovalConflict, "%w", err).WithRemedy("List grants with `palyra grants list`.")
	}
	return err
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
