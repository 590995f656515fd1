package approval

import (
	"context"
	"slices"
	"strconv"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Decide casts a user's vote on a pending record and returns the updated record. A deny settles
// it as denied. An allow settles it if the Judge accepts the votes so far; otherwise the record
// stays pending and states the missing votes.
//
// A user votes once: a second vote of the same user is reason.ApprovalConflict, except for an
// approving vote that proves more than the first, which it replaces. A vote on a record that is
// not pending is also a conflict; the error names the user who answered it. Other errors are
// reason.NotFound, PermissionDenied, DigestMismatch, InvalidInput, or errors of Judge and store.
// After an error the vote is not kept.
func (d *Desk) Decide(ctx context.Context, caller access.Caller, id string, b Ballot) (Record, error) {
	b, err := b.check(d.limits)
	if err != nil {
		return Record{}, err
	}
	return d.change(ctx, id, Pending, func(rec Record) error { return d.mayVote(ctx, caller, rec, b) },
		func(rec Record) (Record, error) { return d.cast(ctx, caller, rec, b) })
}

// MayVote returns nil if a plain vote of the caller would be accepted, otherwise its error. It
// reveals no more to the caller than a refused vote does.
func (d *Desk) MayVote(ctx context.Context, caller access.Caller, rec Record) error {
	return d.mayVote(ctx, caller, rec, Ballot{Allow: true, Scope: Once})
}

// MayDecide returns an error if the caller may not answer the approval, independent of its
// state. reason.PresenceNotProven means that the caller may answer it with proof of presence.
func (d *Desk) MayDecide(ctx context.Context, caller access.Caller, rec Record) error {
	if caller.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not decide: only users decide approvals", caller.Principal)
	}
	return d.judge.MayDecide(ctx, caller, rec)
}

// mayVote runs all checks of a vote that do not need a unit. The permission to decide is
// checked first: callers without it learn nothing about the record.
func (d *Desk) mayVote(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
	if err := d.MayDecide(ctx, caller, rec); err != nil {
		return err
	}
	if rec.State != Pending {
		return conflict(rec)
	}
	if b.ShownDigest != "" && b.ShownDigest != rec.CallDigest {
		return reason.Errorf(reason.DigestMismatch, "the displayed digest is %s, the waiting call has %s", text.Visible(b.ShownDigest), rec.CallDigest).
			WithField("call_digest", rec.CallDigest)
	}
	if b.ShownVersion != 0 && b.ShownVersion != rec.Version {
		return reason.Errorf(reason.ApprovalConflict, "approval %s has version %d, but version %d was displayed", rec.ID, rec.Version, b.ShownVersion).
			WithRemedy("Review it again: a vote was cast, or the call was edited.").WithField("version", strconv.FormatInt(rec.Version, 10))
	}
	if b.Passkey != nil && b.Passkey.Version != rec.Version { // the passkey proves another vote
		return conflict(rec)
	}
	if b.Allow && rec.Withheld != nil { // a withheld record cannot be reviewed, so it cannot be approved
		return rec.Withheld
	}
	if rec.HasVoted(caller.Principal) && !(b.Allow && rec.provesMore(caller)) {
		return reason.Errorf(reason.ApprovalConflict, "%s has already voted on approval %s", caller.Principal, rec.ID).
			WithRemedy("Votes are final. Cancel or revoke the approval instead.").
			WithField("state", string(rec.State)).WithField("changed_by", caller.Principal.String())
	}
	if !b.Allow || b.Scope == Once {
		return nil
	}
	return d.mayGrant(ctx, caller, rec, b)
}

// mayGrant runs the additional checks of a vote that requests a standing grant.
func (d *Desk) mayGrant(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
	switch {
	case len(rec.Edits) > 0:
		return rec.noGrant()
	case rec.AboutSession():
		return reason.Errorf(reason.InvalidInput, "an approval to extend a session covers one extension only").
			WithRemedy("Choose scope once.")
	case rec.AboutSecret():
		return reason.Errorf(reason.InvalidInput, "an approval of a secret for a program covers one call only").
			WithRemedy("Choose scope once.")
	case rec.AboutGateway():
		return reason.Errorf(reason.InvalidInput, "an approval of %s covers one change only", rec.what()).
			WithRemedy("Choose scope once.")
	case b.Match != MatchExact && rec.ExactOnly != "":
		return reason.Errorf(reason.InvalidInput, "a grant for this call must cover the identical call only: %s", rec.ExactOnly).
			WithRemedy("Choose match exact, or scope once.").WithField("match", string(MatchExact))
	case b.Match == MatchSubject && rec.Subject == "":
		return reason.Errorf(reason.InvalidInput, "the call has no subject that a grant could cover").
			WithRemedy("Choose match exact.")
	case b.Match == MatchTool && rec.AboutCommit():
		return reason.Errorf(reason.InvalidInput, "a grant for any changes of a tool would cover changes that no approver has reviewed").
			WithRemedy("Choose match exact or subject.")
	case b.Scope == Session && (rec.Session == "" || d.idle(rec)):
		return reason.Errorf(reason.InvalidInput, "the session of the call has ended").
			WithRemedy("Choose scope once or timeboxed.")
	case b.Match == MatchTool:
		return d.judge.MayGrantBroad(ctx, caller)
	default:
		return nil
	}
}

// idle reports whether the session of a record has ended by idling.
func (d *Desk) idle(rec Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.open[rec.ID]; ok && len(e.waiters) > 0 {
		return false
	}
	last := rec.CreatedAt
	if seen := d.grants.lastSeen(rec.Session); seen.After(last) {
		last = seen
	}
	return d.now().Sub(last) >= d.limits.SessionIdle
}

// cast judges the votes together with the new one and stores the result.
func (d *Desk) cast(ctx context.Context, caller access.Caller, rec Record, b Ballot) (Record, error) {
	at := d.now()
	votes := append(rec.votesBut(caller.Principal), b.vote(caller, at))
	to, missing, needs := Denied, "", (*Needs)(nil)
	if b.Allow {
		ruling, err := d.judge.Judge(ctx, rec, slices.Clone(votes))
		if err != nil {
			return Record{}, err
		}
		to, missing, needs = Pending, ruling.Missing, ruling.Needs
		if ruling.Allowed {
			to, missing, needs = Allowed, "", nil
		}
	}
	grantID, err := newID(at)
	if err != nil {
		return Record{}, err
	}
	defer d.beginMint(grantID)()
	var after Record
	var grant Grant
	var minted bool
	err = d.update(ctx, func(tx Tx) error {
		at := d.now()
		s := step{
			id: rec.ID, from: Pending, version: rec.Version, to: to, at: at,
			actor: caller.Principal.String(), note: b.Reason, events: voteEvents,
		}
		s.change = func(r *Record) {
			r.Votes, r.Missing, r.Needs = votes, missing, needs
			if to == Allowed {
				r.UseBy = at.Add(d.limits.UseWithin)
				if grant, minted = mint(grantID, *r, at); minted {
					r.GrantID = grant.ID
				}
			}
		}
		var err error
		if after, err = transition(tx, s); err != nil || !minted {
			return err
		}
		return insertGrant(tx, grant, s.actor)
	})
	if err != nil {
		return Record{}, err
	}
	if minted {
		d.keepGrant(grant)
	}
	d.settle(after)
	return after, nil
}

func insertGrant(tx Tx, g Grant, actor string) error {
	minted, err := grantDraft(event.GrantMinted, g, actor, g)
	if err != nil {
		return err
	}
	if err := tx.InsertGrant(g); err != nil {
		return err
	}
	tx.Emit(minted)
	return nil
}
