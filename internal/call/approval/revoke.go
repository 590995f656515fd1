package approval

import (
	"context"
	"errors"
	"fmt"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Cancel withdraws a pending record. Its requester, the user on whose behalf
// it asks, and whoever may decide it may cancel it. A record that is not
// pending is reason.ApprovalConflict.
func (d *Desk) Cancel(ctx context.Context, caller access.Caller, id, why string) (Record, error) {
	return d.close(ctx, caller, id, why, Pending, d.cancel)
}

// RevokeApproval takes back a record that was allowed and is not consumed. Those
// who may cancel it and those who voted on it may revoke it.
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

// change moves a record if the caller may do that. When a vote came in between
// reading and moving the record, and it still has the state from, change tries
// again with the record as it is now.
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
		// The record changed between reading and changing it. If its state is the
		// same still, a vote came in, and the change is judged anew with it: each
		// time round somebody has voted, so this ends.
		if now, readErr := d.store.Record(ctx, id); readErr != nil || now.State != from || ctx.Err() != nil {
			return Record{}, err
		}
	}
}

// mayClose returns nil when the caller may take a record back. To narrow what
// one asked for or allowed oneself needs no permission.
func (d *Desk) mayClose(ctx context.Context, caller access.Caller, rec Record) error {
	p := caller.Principal
	if !p.IsZero() && (p == rec.RequestedBy || p == rec.OnBehalfOf || rec.HasVoted(p)) {
		return nil
	}
	return d.judge.MayDecide(ctx, caller, rec)
}

func (d *Desk) cancel(ctx context.Context, rec Record, by, why string) (Record, error) {
	return d.move(ctx, step{
		id: rec.ID, from: Pending, version: rec.Version, to: Cancelled,
		actor: by, note: why, events: stateEvents(event.Cancelled, Pending),
	})
}

func (d *Desk) revoke(ctx context.Context, rec Record, by, why string) (Record, error) {
	return d.move(ctx, step{
		id: rec.ID, from: Allowed, version: rec.Version, to: Revoked,
		actor: by, note: why, events: stateEvents(event.Revoked, Allowed),
	})
}

// move makes one transition as a unit of its own.
func (d *Desk) move(ctx context.Context, s step) (Record, error) {
	var after Record
	err := d.update(ctx, func(tx Tx) error {
		var err error
		s.at = d.now()
		after, err = transition(tx, s)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	d.settle(after)
	return after, nil
}

// RevokeGrant takes a grant back at once: a call that was allowed by it and has not
// started does not start (see Recheck). It may be revoked by the principal whose
// calls it covers, the user on whose behalf these are made, the users whose votes
// minted it, and whoever may decide its approval. A grant that no longer stands is
// reason.ApprovalConflict.
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
		return reason.Errorf(reason.ApprovalConflict, "%w", err).WithRemedy("Look at it with `palyra grants list`.")
	}
	return err
}

// EndSession ends a session: its session grants end, its pending records are
// cancelled, and its allowed records that were not consumed expire.
func (d *Desk) EndSession(ctx context.Context, session string) error {
	if session == "" {
		return reason.Errorf(reason.InvalidInput, "a session to end needs an id")
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

// endRecord closes a record of a session or run that is over: pending becomes
// cancelled, allowed becomes expired. One that was settled otherwise is left.
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

// EndUnused ends a record of a change of the gateway that is not made, and notes why:
// pending becomes cancelled, allowed expired. One that was settled otherwise is left.
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

// MarkRunsGone is for the start of the daemon, before calls come in, when all calls
// that asked are gone. Allowed records that were not consumed expire. Pending
// records about changes expire, too, since the changes are gone, and so do questions
// about the gateway, since whoever would make the change is gone. Other pending
// records stay, show RunGone, and can still be decided; a repeated identical call
// joins them.
func (d *Desk) MarkRunsGone(ctx context.Context) error {
	for id, note := range d.gone() {
		if err := d.endRecord(ctx, id, note); err != nil {
			return fmt.Errorf("expiring approvals of runs that are gone: %w", err)
		}
	}
	return nil
}

// gone are the records that MarkRunsGone ends, by id, with their notes.
func (d *Desk) gone() map[string]string {
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
