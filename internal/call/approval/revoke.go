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
func (d *Desk) Cancel(ctx context.Context, caller access.Caller, id, why string) (Record, error) {
	return d.close(ctx, caller, id, why, Pending, d.cancel)
}

// RevokeApproval revokes a record that was allowed and is not consumed. Every user who may
// cancel it or who voted on it may revoke it.
func (d *Desk) RevokeApproval(ctx context.Context, caller access.Caller, id, why string) (Record, error) {
	return d.close(ctx, caller, id, why, Allowed, d.revoke)
}

func (d *Desk) close(ctx context.Context, caller access.Caller, id, why string, from State,
	move func(context.Context, Record, string, string) (Record, error),
) (Record, error) {
	if err := checkReason(why); err != nil {
		return Record{}, err
	}
	return d.change(ctx, id, from, func(rec Record) error {
		if err := d.mayClose(ctx, caller, rec); err != nil {
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
func (d *Desk) change(ctx context.Context, id string, from State, may func(Record) error, move func(Record) (Record, error)) (Record, error) {
	for {
		rec, err := d.store.Record(ctx, id)
		if err != nil {
			return Record{}, notFound(err, "approval", id)
		}
		if err := may(rec); err != nil {
			return Record{}, err
		}
		after, err := move(rec)
		if errors.Is(err, errLate) {
			return Record{}, d.expireNow(ctx, id)
		}
		if reason.Of(err) != reason.ApprovalConflict {
			return d.live(after), err
		}
		// The record changed after it was read. If its state is the same, a vote came in, and
		// the change is checked again. The loop ends because each iteration needs another vote.
		if now, readErr := d.store.Record(ctx, id); readErr != nil || now.State != from || ctx.Err() != nil {
			return Record{}, err
		}
	}
}

// mayClose returns nil if the caller may withdraw a record. Withdrawing one's own request or
// vote needs no permission.
func (d *Desk) mayClose(ctx context.Context, caller access.Caller, rec Record) error {
	p := caller.Principal
	if !p.IsZero() && (p == rec.RequestedBy || p == rec.OnBehalfOf || rec.HasVoted(p)) {
		return nil
	}
	return d.judge.MayDecide(ctx, caller, rec)
}

func (d *Desk) revoke(ctx context.Context, rec Record, by, why string) (Record, error) {
	return d.move(ctx, step{
		id: rec.ID, from: Allowed, version: rec.Version, to: Revoked,
		actor: by, note: why, events: stateEvents(event.Revoked, Allowed),
	})
}

// RevokeGrant revokes a grant immediately: a call that was allowed by it and has not started
// does not start (see Recheck). A grant may be revoked by the principal whose calls it covers,
// the user on whose behalf they are made, the users whose votes created it, and every user who
// may decide its approval. For a revoked or ended grant the error is reason.ApprovalConflict.
func (d *Desk) RevokeGrant(ctx context.Context, caller access.Caller, id, why string) (Grant, error) {
	if err := checkReason(why); err != nil {
		return Grant{}, err
	}
	g, err := d.store.Grant(ctx, id)
	if err != nil {
		return Grant{}, notFound(err, "grant", id)
	}
	rec, err := d.store.Record(ctx, g.ApprovalID)
	if err != nil {
		return Grant{}, notFound(err, "approval", g.ApprovalID)
	}
	if err := d.mayClose(ctx, caller, rec); err != nil {
		return Grant{}, err
	}
	by := caller.Principal.String()
	err = d.update(ctx, func(tx Tx) error {
		now := d.now()
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
	d.keepGrant(g)
	return g, nil
}

func alreadyClosed(err error) error {
	if code := reason.Of(err); code == reason.ApprovalRevoked || code == reason.ApprovalExpired {
		return reason.Errorf(reason.ApprovalConflict, "%w", err).WithRemedy("List grants with `palyra grants list`.")
	}
	return err
}

// EndSession ends a session: its session grants end, its pending records are cancelled, and its
// allowed records that were not consumed expire.
func (d *Desk) EndSession(ctx context.Context, session string) error {
	if session == "" {
		return reason.Errorf(reason.InvalidInput, "ending a session: the id is empty")
	}
	grants, records := d.ofSession(session)
	const note = "the session ended"
	for _, id := range grants {
		if err := d.endGrants(ctx, []due{{id: id, grant: true}}, note); err != nil {
			return fmt.Errorf("ending session: %w", err)
		}
	}
	for _, id := range records {
		if err := d.endRecord(ctx, id, note); err != nil {
			return fmt.Errorf("ending session: %w", err)
		}
	}
	return nil
}

func (d *Desk) ofSession(session string) (grants, records []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, g := range d.grants.byID {
		if g.Scope == Session && g.Session == session {
			grants = append(grants, id)
		}
	}
	for id, e := range d.open {
		if e.rec.Session == session {
			records = append(records, id)
		}
	}
	return grants, records
}

// endRecord closes a record of a session or run that has ended: pending becomes cancelled,
// allowed becomes expired. A record that was settled otherwise is skipped.
func (d *Desk) endRecord(ctx context.Context, id, note string) error {
	for {
		rec, err := d.store.Record(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil
		case err != nil:
			return err
		case rec.State == Pending:
			_, err = d.cancel(ctx, rec, daemon, note)
		case rec.State == Allowed:
			_, err = d.move(ctx, expiry(rec, note))
		default:
			return nil
		}
		if errors.Is(err, errLate) {
			err = d.expire(ctx, []due{{id: id}})
		}
		if reason.Of(err) != reason.ApprovalConflict {
			return err
		}
	}
}

// EndUnused ends the record of a gateway change that will not be made, with a note: pending
// becomes cancelled, allowed expired. A record that was settled otherwise is skipped.
func (d *Desk) EndUnused(ctx context.Context, id, why string) error {
	return d.endRecord(context.WithoutCancel(ctx), id, why)
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
func (d *Desk) MarkRunsGone(ctx context.Context) error {
	for id, note := range d.unavailableGrants() {
		if err := d.endRecord(ctx, id, note); err != nil {
			return fmt.Errorf("expiring approvals of runs that are gone: %w", err)
		}
	}
	return nil
}

// unavailableGrants returns the ids and notes of the records that MarkRunsGone ends.
func (d *Desk) unavailableGrants() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := map[string]string{}
	for id, e := range d.open {
		if e.rec.State == Allowed || e.rec.AboutCommit() || e.rec.AboutGateway() {
			ids[id] = goneNote(e.rec)
		}
	}
	return ids
}
