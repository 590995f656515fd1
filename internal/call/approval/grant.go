package approval

import (
	"cmp"
	"slices"
	"time"

	"palyra/internal/core/access"
)

// Live reports whether g still allows calls at the time.
func (g Grant) Live(at time.Time) bool { return g.stands(at) && !g.usedUp() }

// stands reports whether g is valid: not revoked, ended or expired. The call that made the last use
// of g may proceed while g is valid.
func (g Grant) stands(at time.Time) bool { return g.Open() && at.Before(g.ExpiresAt) }

func (g Grant) usedUp() bool { return g.MostUses > 0 && g.Uses >= g.MostUses }

// Open reports whether g was neither revoked nor ended.
func (g Grant) Open() bool { return g.RevokedAt.IsZero() && g.EndedAt.IsZero() }

// GrantQuery describes the call for which grants are searched.
type GrantQuery struct {
	Principal  access.Principal
	OnBehalfOf access.Principal
	Session    string
	Tool       string
	// ToolDefinition is the digest of the tool's definition; if empty, it is not compared here
	// (Grants.Answer always compares it).
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
	switch {
	case g.Principal != q.Principal || g.OnBehalfOf != q.OnBehalfOf || g.Tool != q.Tool || q.Tool == "",
		g.Elsewhere != q.Elsewhere,
		g.Scope == Session && g.Session != q.Session,
		q.ToolDefinition != "" && g.ToolDefinition != q.ToolDefinition,
		q.ExactOnly && g.Match != MatchExact:
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

// grantBook holds the standing grants in memory, so that a look-up does not read the store.
// Grants.mu guards it. The transaction that counts a use, not this book, decides whether the
// grant is valid.
type grantBook struct {
	idle    time.Duration
	byID    map[string]Grant
	byOwner map[access.Principal][]string
	// seen is the last activity of sessions that have a session grant.
	seen map[string]time.Time
	// perSession counts the session grants of a session.
	perSession map[string]int
	// minting holds grants that are being stored; the value is true once the grant was closed
	// before it was put.
	minting map[string]bool
}

// put stores a grant and replaces an older version of it.
func (b *grantBook) put(g Grant) {
	old, known := b.byID[g.ID]
	if known && old.Version >= g.Version {
		return
	}
	b.byID[g.ID] = g
	if !known {
		b.byOwner[g.Principal] = append(b.byOwner[g.Principal], g.ID)
		if g.Scope == Session {
			b.perSession[g.Session]++
		}
	}
	if g.Scope == Session {
		b.touchAt(g.Session, g.CreatedAt)
		b.touchAt(g.Session, g.LastUsedAt)
	}
}

func (b *grantBook) remove(id string) {
	g, ok := b.byID[id]
	if !ok {
		return
	}
	delete(b.byID, id)
	removeFrom(b.byOwner, g.Principal, id)
	if g.Scope == Session {
		if decrement(b.perSession, g.Session); b.perSession[g.Session] == 0 {
			delete(b.seen, g.Session)
		}
	}
}

// ends returns the time at which a grant expires; activity in its session may extend it.
func (b *grantBook) ends(g Grant) time.Time {
	if idle := b.seen[g.Session].Add(b.idle); g.Scope == Session && idle.Before(g.ExpiresAt) {
		return idle
	}
	return g.ExpiresAt
}

// touch notes activity in a session that is not idle yet.
func (b *grantBook) touch(session string, at time.Time) {
	if last, ok := b.seen[session]; ok && at.Sub(last) < b.idle {
		b.touchAt(session, at)
	}
}

func (b *grantBook) touchAt(session string, at time.Time) {
	if at.After(b.seen[session]) {
		b.seen[session] = at
	}
}

// find returns the grants that cover a call, narrowest first.
func (b *grantBook) find(q GrantQuery, at time.Time) []Grant {
	var list []Grant
	for _, id := range b.byOwner[q.Principal] {
		if g := b.byID[id]; g.Covers(q) && g.Live(at) && at.Before(b.ends(g)) {
			list = append(list, g)
		}
	}
	if len(list) > 1 { // sorting needs a large stack frame, and few calls have a grant
		slices.SortFunc(list, narrowFirst)
	}
	return list
}
