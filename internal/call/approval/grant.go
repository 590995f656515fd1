package approval

import (
	"cmp"
	"slices"
	"time"

	"palyra/internal/core/access"
)

// Grant is a standing approval that the votes on a record created. It is listed, counted and
// revoked separately.
//
// A grant MUST NOT cover more than the votes that created it, and MUST NOT be used after its end,
// its last use or its revocation. Policy MUST judge each call with the votes of the grant again.
type Grant struct {
	// ID and ApprovalID are ULIDs.
	ID         string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	Scope      Scope  `json:"scope"`
	Match      Match  `json:"match"`
	// Tool and ToolDefinition (its digest) apply to every matcher; Subject to the matcher
	// subject, CallDigest to exact.
	Tool           string `json:"tool"`
	ToolDefinition string `json:"tool_definition_digest"`
	Subject        string `json:"subject"`
	CallDigest     string `json:"call_digest"`
	// Elsewhere is true for a grant of calls that other gateways run; it covers no others.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Principal and OnBehalfOf are the parties of the calls that it covers.
	Principal  access.Principal `json:"principal"`
	OnBehalfOf access.Principal `json:"on_behalf_of"`
	// Covered describes in words the calls that it covers and their parties; "" for a grant of
	// an earlier version.
	Covered string `json:"covers,omitempty"`
	// Session and Run identify the requesting call; Session applies to scope session.
	Session  string `json:"session"`
	Run      string `json:"run"`
	MintedBy []Vote `json:"minted_by"`
	// CreatedAt and the other times are in UTC.
	CreatedAt    time.Time `json:"created_at"`
	ExpiresAt    time.Time `json:"expires_at"`
	RevokedAt    time.Time `json:"revoked_at,omitzero"`
	RevokedBy    string    `json:"revoked_by"`
	RevokeReason string    `json:"revoke_reason"`
	// EndedAt and EndNote are set when it expired or its session ended.
	EndedAt time.Time `json:"ended_at,omitzero"`
	EndNote string    `json:"end_note"`
	// Uses counts the calls that it allowed. MostUses is the maximum; 0 means unlimited within
	// its lifetime.
	Uses       int64     `json:"uses"`
	MostUses   int64     `json:"most_uses,omitempty"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	// Version counts the changes of this grant, from 1.
	Version int64 `json:"version"`
}

// Live reports whether g still allows calls at the time.
func (g Grant) Live(at time.Time) bool { return g.stands(at) && !g.usedUp() }

// stands reports whether g is valid: not revoked, ended or expired. The call that made the last use
// of g may proceed while g is valid.
func (g Grant) stands(at time.Time) bool { return !g.closed() && at.Before(g.ExpiresAt) }

func (g Grant) usedUp() bool { return g.MostUses > 0 && g.Uses >= g.MostUses }

// Open reports whether g was neither revoked nor ended.
func (g Grant) Open() bool { return !g.closed() }

func (g Grant) closed() bool { return !g.RevokedAt.IsZero() || !g.EndedAt.IsZero() }

// GrantQuery describes the call for which grants are searched.
type GrantQuery struct {
	Principal  access.Principal
	OnBehalfOf access.Principal
	Session    string
	Tool       string
	// ToolDefinition is the digest of the tool's definition; if empty, it is not compared here
	// (GrantAnswer always compares it).
	ToolDefinition string
	Subject        string
	CallDigest     string
	// Commit is true for the changes of a call. A grant for any call of a tool never covers its
	// changes, because no approver has reviewed them.
	Commit bool
	// Elsewhere is true for a call that another gateway runs. A grant for a call in the sandbox
	// of this gateway does not cover it.
	Elsewhere bool
	// ExactOnly is true for a call that only an exact grant may cover: an older subject grant,
	// or one for any call of the tool, does not cover it.
	ExactOnly bool
}

// Covers reports whether g applies to such a call. It does not check the time.
func (g Grant) Covers(q GrantQuery) bool {
	if g.Principal != q.Principal || g.OnBehalfOf != q.OnBehalfOf || g.Tool != q.Tool || q.Tool == "" {
		return false
	}
	if g.Elsewhere != q.Elsewhere {
		return false
	}
	if g.Scope == Session && g.Session != q.Session {
		return false
	}
	if q.ToolDefinition != "" && g.ToolDefinition != q.ToolDefinition {
		return false
	}
	if q.ExactOnly && g.Match != MatchExact {
		return false
	}
	switch g.Match {
	case MatchExact:
		return q.CallDigest != "" && g.CallDigest == q.CallDigest
	case MatchSubject:
		return q.Subject != "" && g.Subject == shownSubject(q.Subject)
	case MatchTool:
		return !q.Commit
	default:
		return false
	}
}

// narrowFirst orders grants by matcher, then by age, so that a decision cites the narrowest.
func narrowFirst(a, b Grant) int {
	return cmp.Or(cmp.Compare(a.Match.width(), b.Match.width()), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
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
