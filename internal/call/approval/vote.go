package approval

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/passkey"
)

// Vote is one user's answer to a record.
type Vote struct {
	User  access.Principal `json:"user"`
	Roles []access.Role    `json:"roles"`
	// Device and Surface are the origin of the vote.
	Device  string         `json:"device"`
	Surface access.Surface `json:"surface"`
	Paired  bool           `json:"paired"`
	Present bool           `json:"present"`
	// Transport is the voter's connection to the gateway.
	Transport access.Transport `json:"transport,omitempty"`
	Allow     bool             `json:"allow"`
	Scope     Scope            `json:"scope"`
	// TTL is the maximum lifetime of a grant, in nanoseconds; zero for scope once.
	TTL time.Duration `json:"ttl_ns"`
	// Uses is the maximum number of calls that a grant allows; zero means unlimited.
	Uses   int64  `json:"uses,omitempty"`
	Match  Match  `json:"match"`
	Reason string `json:"reason"`
	// ShownDigest is the call digest that was displayed to the approver.
	ShownDigest string    `json:"shown_digest"`
	At          time.Time `json:"at"`
	// Passkey is the assertion of the voter's passkey, if it proved presence. The vote can be
	// verified with the passkey's enrolment (see Said).
	Passkey *passkey.Assertion `json:"passkey,omitempty"`
}

// Said returns the statement that a voter's passkey signs for its vote on a record.
func (v Vote) Said(gateway, approvalID string) passkey.Vote {
	decision := "deny"
	if v.Allow {
		decision = "allow"
	}
	statement := passkey.Vote{
		Gateway: gateway, Voter: v.User.String(), Approval: approvalID, CallDigest: v.ShownDigest, Decision: decision,
		Scope: string(v.Scope), Match: string(v.Match), TTL: v.TTL, Uses: v.Uses, Reason: v.Reason, Surface: string(v.Surface),
	}
	if v.Passkey != nil {
		statement.Version, statement.Nonce = v.Passkey.Version, v.Passkey.Nonce
	}
	return statement
}

// Ballot is the input of Decide.
type Ballot struct {
	Allow bool
	// Scope defaults to once.
	Scope Scope
	// TTL is required for timeboxed (1 min to 7 d); for session it may shorten the 8 h; for
	// once it must be zero.
	TTL time.Duration
	// Uses is the maximum number of further calls: 1 to MaxUses, or 0 for unlimited; 0 for
	// once.
	Uses int64
	// Match defaults to exact.
	Match  Match
	Reason string
	// ShownDigest, if set, must be the record's call digest.
	ShownDigest string
	// ShownVersion, if set, must be the record's version: the record is then unchanged since it
	// was displayed.
	ShownVersion int64
	// Passkey is a verified proof; its Version must be the record's.
	Passkey *passkey.Assertion
}

// MaxUses is the largest bound on the uses of a grant.
const MaxUses = 1000

// MaxReason is the longest reason of a vote, cancel, revoke or freeze, in bytes.
const MaxReason = 4096

// check returns the ballot with its defaults set.
func (b Ballot) check(l Limits) (Ballot, error) {
	if err := checkReason(b.Reason); err != nil {
		return b, err
	}
	if !b.Allow {
		b.Scope, b.Match, b.TTL, b.Uses = Once, MatchExact, 0, 0
		return b, nil
	}
	if b.Scope == "" {
		b.Scope = Once
	}
	if b.Match == "" {
		b.Match = MatchExact
	}
	if b.Match != MatchExact && b.Match != MatchSubject && b.Match != MatchTool {
		return b, reason.Errorf(reason.InvalidInput, "match %q: want exact, subject or tool", b.Match)
	}
	if b.Uses < 0 || b.Uses > MaxUses {
		return b, reason.Errorf(reason.InvalidInput, "%d uses: want 1 to %d, or none for no limit", b.Uses, MaxUses)
	}
	return b.checkScope(l)
}

func (b Ballot) checkScope(l Limits) (Ballot, error) {
	switch b.Scope {
	case Once:
		if b.TTL != 0 || b.Uses != 0 || b.Match != MatchExact {
			return b, reason.Errorf(reason.InvalidInput, "scope once allows no ttl, no uses, and only the matcher exact").
				WithRemedy("Omit them, or choose scope session or timeboxed.")
		}
		return b, nil
	case Session:
		if b.TTL == 0 {
			b.TTL = l.SessionGrant
		}
		return b, checkTTL(b.TTL, l.GrantTTLMin, l.SessionGrant)
	case Timeboxed:
		return b, checkTTL(b.TTL, l.GrantTTLMin, l.GrantTTLMax)
	default:
		return b, reason.Errorf(reason.InvalidInput, "scope %q: want once, session or timeboxed", b.Scope)
	}
}

func checkTTL(ttl, least, most time.Duration) error {
	if ttl < least || ttl > most {
		return reason.Errorf(reason.InvalidInput, "ttl %s: want %s to %s", ttl, least, most)
	}
	return nil
}

func checkReason(text string) error {
	switch {
	case len(text) > MaxReason:
		return reason.Errorf(reason.InputTooLarge, "reason of %d bytes: at most %d", len(text), MaxReason)
	case !utf8.ValidString(text), strings.ContainsRune(text, 0):
		return reason.Errorf(reason.InvalidUTF8, "reason is not valid UTF-8 or holds a NUL")
	default:
		return nil
	}
}

// vote creates the vote of a caller from a checked ballot.
func (b Ballot) vote(c access.Caller, at time.Time) Vote {
	return Vote{
		User: c.Principal, Roles: c.Roles, Device: c.DeviceID,
		Surface: c.Surface, Paired: c.Paired, Present: c.Present, Transport: c.Transport,
		Allow: b.Allow, Scope: b.Scope, TTL: b.TTL, Uses: b.Uses, Match: b.Match, Reason: b.Reason,
		ShownDigest: b.ShownDigest, At: at, Passkey: b.Passkey,
	}
}

// Said returns the statement that a caller's passkey signs for a vote: the ballot with its
// defaults set.
func (v *Votes) Said(caller access.Caller, gateway, approvalID string, b Ballot) (passkey.Vote, error) {
	b, err := b.check(v.limits)
	return b.vote(caller, time.Time{}).Said(gateway, approvalID), err
}

// Own reports whether the user is a requester of r: as RequestedBy, as OnBehalfOf, or as an
// editor. The vote of such a user does not count as independent.
func (r Record) Own(user access.Principal) bool {
	return !user.IsZero() && (user == r.RequestedBy || user == r.OnBehalfOf || r.edited(user))
}

// HasVoted reports whether the user has voted on r.
func (r Record) HasVoted(user access.Principal) bool {
	return slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.User == user })
}

// provesMore reports whether a vote of the caller has a proof that the caller's previous vote
// lacks, and lacks none that it has. An insufficient approval can thus be repeated: over TLS
// after the socket, or with proof of presence.
func (r Record) provesMore(c access.Caller) bool {
	return slices.ContainsFunc(r.Votes, func(v Vote) bool {
		return v.User == c.Principal && (c.Paired && !v.Paired || c.Present && !v.Present) && (c.Paired || !v.Paired) && (c.Present || !v.Present)
	})
}

// votesBut returns the votes of all other users.
func (r Record) votesBut(user access.Principal) []Vote {
	return slices.DeleteFunc(slices.Clone(r.Votes), func(v Vote) bool { return v.User == user })
}

// VotedPayload is the payload of event.Voted.
type VotedPayload struct {
	ApprovalID string `json:"approval_id"`
	CallDigest string `json:"call_digest"`
	Version    int64  `json:"version"`
	Vote       Vote   `json:"vote"`
	Missing    string `json:"missing"`
}

// voteEvents drafts the last vote and, if it settled the record, the answer.
func voteEvents(r Record) ([]event.Draft, error) {
	v := r.Votes[len(r.Votes)-1]
	voted, err := recordDraft(event.Voted, r, v.User.String(), VotedPayload{
		ApprovalID: r.ID, CallDigest: r.CallDigest, Version: r.Version, Vote: v, Missing: r.Missing,
	})
	if err != nil || r.State == Pending {
		return []event.Draft{voted}, err
	}
	answered, err := stateEvents(event.Answered, Pending)(r)
	return append([]event.Draft{voted}, answered...), err
}
