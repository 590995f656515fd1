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

// Decide casts a user's vote on a pending record and returns the record as it
// is afterwards. Any deny settles it as denied; an allow settles it when the
// Judge finds the votes so far enough, and otherwise it stays pending and says
// what is missing.
//
// A user votes once: a second vote of the same user is reason.ApprovalConflict, but
// for a yes that proves more than the first, whose place it takes. A conflict is also a vote on a record that is no longer pending; the error says who answered it.
// Other errors are reason.NotFound, PermissionDenied, DigestMismatch, InvalidInput,
// or those of Judge and store. After an error the vote is not kept.
func (d *Desk) Decide(ctx context.Context, caller access.Caller, id string, b Ballot) (Record, error) {
	b, err := b.check(d.limits)
	if err != nil {
		return Record{}, err
	}
	return d.change(ctx, id, Pending, func(rec Record) error { return d.mayVote(ctx, caller, rec, b) },
		func(rec Record) (Record, error) { return d.cast(ctx, caller, rec, b) })
}

// MayVote reports what a plain yes or no of the caller would meet: nil when it would be
// taken. The caller is told nothing that the refusal of a vote would not say.
func (d *Desk) MayVote(ctx context.Context, caller access.Caller, rec Record) error {
	return d.mayVote(ctx, caller, rec, Ballot{Allow: true, Scope: Once})
}

// MayDecide returns why the caller may not answer the approval, whatever its state is.
// reason.PresenceNotProven means that the caller may answer it with proof of presence.
func (d *Desk) MayDecide(ctx context.Context, caller access.Caller, rec Record) error {
	if caller.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not decide: only users decide approvals", caller.Principal)
	}
	return d.judge.MayDecide(ctx, caller, rec)
}

// mayVote checks everything about a vote that needs no unit. The right to
// decide comes first: who lacks it learns nothing about the record.
func (d *Desk) mayVote(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
	if err := d.MayDecide(ctx, caller, rec); err != nil {
		return err
	}
	if rec.State != Pending {
		return conflict(rec)
	}
	if b.ShownDigest != "" && b.ShownDigest != rec.CallDigest {
		return reason.Errorf(reason.DigestMismatch, "the digest shown is %s, the call that waits has %s", text.Visible(b.ShownDigest), rec.CallDigest).
			WithField("call_digest", rec.CallDigest)
	}
	if b.ShownVersion != 0 && b.ShownVersion != rec.Version {
		return reason.Errorf(reason.ApprovalConflict, "approval %s has version %d by now, and version %d was shown", rec.ID, rec.Version, b.ShownVersion).
			WithRemedy("Look at it again: somebody voted, or it was changed.").WithField("version", strconv.FormatInt(rec.Version, 10))
	}
	if b.Passkey != nil && b.Passkey.Version != rec.Version { // it would be a proof of another vote
		return conflict(rec)
	}
	if b.Allow && rec.Withheld != nil { // nobody says yes to what nobody can see
		return rec.Withheld
	}
	if rec.HasVoted(caller.Principal) && !(b.Allow && rec.provesMore(caller)) {
		return reason.Errorf(reason.ApprovalConflict, "%s has voted on approval %s already", caller.Principal, rec.ID).
			WithRemedy("A vote stands. Cancel or revoke the approval to take it back.").
			WithField("state", string(rec.State)).WithField("changed_by", caller.Principal.String())
	}
	if !b.Allow || b.Scope == Once {
		return nil
	}
	return d.mayGrant(ctx, caller, rec, b)
}

// mayGrant checks what a vote needs beside, when it wants a standing grant.
func (d *Desk) mayGrant(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
	switch {
	case len(rec.Edits) > 0:
		return rec.noGrant()
	case rec.AboutSession():
		return reason.Errorf(reason.InvalidInput, "a yes to more calls of a session is for once").
			WithRemedy("Choose scope once.")
	case rec.AboutSecret():
		return reason.Errorf(reason.InvalidInput, "a yes to a secret for a program is for once").
			WithRemedy("Choose scope once.")
	case rec.AboutGateway():
		return reason.Errorf(reason.InvalidInput, "a yes to %s is for once", rec.what()).
			WithRemedy("Choose scope once.")
	case b.Match != MatchExact && rec.ExactOnly != "":
		return reason.Errorf(reason.InvalidInput, "a grant for this call covers that very call and no other: %s", rec.ExactOnly).
			WithRemedy("Choose match exact, or scope once.").WithField("match", string(MatchExact))
	case b.Match == MatchSubject && rec.Subject == "":
		return reason.Errorf(reason.InvalidInput, "the call has no subject that a grant could cover").
			WithRemedy("Choose match exact.")
	case b.Match == MatchTool && rec.AboutCommit():
		return reason.Errorf(reason.InvalidInput, "a grant for any changes of a tool would cover what nobody has seen").
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

// idle reports whether the session of a record has ended by being idle.
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

// cast judges the votes with one more and stores what comes of it.
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

// expireNow expires a record whose time is up and says so as a conflict.
func (d *Desk) expireNow(ctx context.Context, id string) error {
	if err := d.expire(ctx, []due{{id: id}}); err != nil {
		return err
	}
	rec, err := d.store.Record(ctx, id)
	if err != nil {
		return notFound(err, "approval", id)
	}
	return conflict(rec)
}
