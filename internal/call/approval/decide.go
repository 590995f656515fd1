package approval

import (
	"context"
	"slices"
	"strconv"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Votes accepts the votes of users on pending records, and creates the grants that they
// request. It is safe for concurrent use.
type Votes struct {
	records *Records
	grants  *Grants
	judge   Judge
	limits  Limits
}

// Decide casts a user's vote on a pending record and returns the updated record. A deny settles
// it as denied. An allow settles it if the Judge accepts the votes so far; otherwise the record
// stays pending and states the missing votes.
//
// A user votes once: a second vote of the same user is reason.ApprovalConflict, except for an
// approving vote that proves more than the first, which it replaces. A vote on a record that is
// not pending is also a conflict; the error names the user who answered it. Other errors are
// reason.NotFound, PermissionDenied, DigestMismatch, InvalidInput, or errors of Judge and
// store. After an error the vote is not kept.
func (v *Votes) Decide(ctx context.Context, caller access.Caller, id string, b Ballot) (Record, error) {
	b, err := b.check(v.limits)
	if err != nil {
		return Record{}, err
	}
	return v.records.change(ctx, id, Pending, func(rec Record) error { return v.mayVote(ctx, caller, rec, b) },
		func(rec Record) (Record, error) { return v.cast(ctx, caller, rec, b) })
}

// MayVote returns nil if a plain vote of the caller would be accepted, otherwise its error. It
// reveals no more to the caller than a refused vote does.
func (v *Votes) MayVote(ctx context.Context, caller access.Caller, rec Record) error {
	return v.mayVote(ctx, caller, rec, Ballot{Allow: true, Scope: Once})
}

// MayDecide returns an error if the caller may not answer the approval, independent of its
// state. reason.PresenceNotProven means that the caller may answer it with proof of presence.
func (v *Votes) MayDecide(ctx context.Context, caller access.Caller, rec Record) error {
	if caller.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s may not decide: only users decide approvals", caller.Principal)
	}
	return v.judge.MayDecide(ctx, caller, rec)
}

// mayVote runs all checks of a vote that do not need a unit. The permission to decide is
// checked first: callers without it learn nothing about the record.
func (v *Votes) mayVote(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
	if err := v.MayDecide(ctx, caller, rec); err != nil {
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
	return v.mayGrant(ctx, caller, rec, b)
}

// mayGrant runs the additional checks of a vote that requests a standing grant.
func (v *Votes) mayGrant(ctx context.Context, caller access.Caller, rec Record, b Ballot) error {
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
	case b.Scope == Session && (rec.Session == "" || v.idle(rec)):
		return reason.Errorf(reason.InvalidInput, "the session of the call has ended").
			WithRemedy("Choose scope once or timeboxed.")
	case b.Match == MatchTool:
		return v.judge.MayGrantBroad(ctx, caller)
	default:
		return nil
	}
}

// idle reports whether the session of a record has ended by idling.
func (v *Votes) idle(rec Record) bool {
	if open, ok := v.records.open.find(rec.ID, rec.CallDigest); ok && open.waiters > 0 {
		return false
	}
	last := rec.CreatedAt
	if seen := v.grants.lastSeen(rec.Session); seen.After(last) {
		last = seen
	}
	return v.records.now().Sub(last) >= v.limits.SessionIdle
}

// cast judges the votes together with the new one and stores the result.
func (v *Votes) cast(ctx context.Context, caller access.Caller, rec Record, b Ballot) (Record, error) {
	at := v.records.now()
	votes := append(rec.votesBut(caller.Principal), b.vote(caller, at))
	to, missing, needs := Denied, "", (*Needs)(nil)
	if b.Allow {
		ruling, err := v.judge.Judge(ctx, rec, slices.Clone(votes))
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
	defer v.grants.beginMint(grantID)()
	var after Record
	var grant Grant
	var minted bool
	err = update(ctx, v.records.store, func(tx Tx) error {
		at := v.records.now()
		s := step{
			id: rec.ID, from: Pending, version: rec.Version, to: to, at: at,
			actor: caller.Principal.String(), note: b.Reason, events: voteEvents,
		}
		s.change = func(r *Record) {
			r.Votes, r.Missing, r.Needs = votes, missing, needs
			if to == Allowed {
				r.UseBy = at.Add(v.limits.UseWithin)
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
		v.grants.keep(grant)
	}
	v.records.settle(after)
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

// mint computes the grant of an allowed record. It returns a grant only if every approving vote
// requested one. The grant is as narrow as the narrowest request.
func mint(id string, rec Record, at time.Time) (Grant, bool) {
	g := Grant{
		ID: id, ApprovalID: rec.ID, Scope: Timeboxed, Match: MatchTool,
		Tool: rec.Binding.Tool, ToolDefinition: rec.Binding.ToolDefinitionDigest,
		Subject: rec.Subject, CallDigest: rec.CallDigest, Elsewhere: rec.Binding.Elsewhere,
		Principal: rec.RequestedBy, OnBehalfOf: rec.OnBehalfOf, Session: rec.Session, Run: rec.Run,
		MintedBy: slices.Clone(rec.Votes), CreatedAt: at, Version: 1,
	}
	for i, v := range rec.Votes {
		if v.Scope == Once {
			return Grant{}, false
		}
		if v.Scope == Session {
			g.Scope = Session
		}
		if v.Match.width() < g.Match.width() {
			g.Match = v.Match
		}
		if ends := at.Add(v.TTL); i == 0 || ends.Before(g.ExpiresAt) {
			g.ExpiresAt = ends
		}
		if v.Uses > 0 && (g.MostUses == 0 || v.Uses < g.MostUses) {
			g.MostUses = v.Uses
		}
	}
	g.Covered = rec.covered(g.Match) + ", " + rec.byWhom(g.Scope)
	return g, len(rec.Votes) > 0
}

// beginMint registers a grant that is being stored. The returned function is called when it is
// stored or has failed.
func (s *Grants) beginMint(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.minting[id] = false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.book.minting, id)
	}
}

func (s *Grants) lastSeen(session string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.seen[session]
}
