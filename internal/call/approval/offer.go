package approval

import (
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/text"
)

// Scope is the duration of an approval.
type Scope string

// The scopes. Once is consumed by one call; session and timeboxed create a Grant.
const (
	Once      Scope = "once"
	Session   Scope = "session"
	Timeboxed Scope = "timeboxed"
)

// Match selects the calls that a grant covers.
type Match string

// The matchers: the same call digest, the tool's own subject, or any call of the tool (which
// requires permission approval.grant_broad).
const (
	MatchExact   Match = "exact"
	MatchSubject Match = "subject"
	MatchTool    Match = "tool"
)

// offers lists the possible answers to a record, each with a description of its coverage.
// Decide rejects all others.
func offers(rec Record, l Limits) []Offer {
	if rec.AboutSession() {
		return []Offer{{Scope: Once, Match: MatchExact, Matcher: "these calls, and no others"}}
	}
	if rec.AboutGateway() {
		return []Offer{{Scope: Once, Match: MatchExact, Matcher: "this one change, " + rec.CallDigest}}
	}
	list := []Offer{{Scope: Once, Match: MatchExact, Matcher: "this one call, " + rec.CallDigest}}
	if rec.AboutSecret() || len(rec.Edits) > 0 {
		return list
	}
	for _, m := range rec.matches() {
		permission := ""
		if m == MatchTool {
			permission = PermissionGrantBroad
		}
		for _, scope := range []Scope{Session, Timeboxed} {
			longest := l.GrantTTLMax
			if scope == Session {
				longest = l.SessionGrant
			}
			what, by := rec.covered(m), rec.byWhom(scope)
			list = append(list, Offer{
				Scope: scope, Match: m, What: what, By: by, MaxTTLSeconds: int64(longest.Seconds()), Permission: permission,
				Matcher: what + ", " + by + ", for up to " + inWords(longest),
			})
		}
	}
	return list
}

// matches returns the matchers that a grant for r may have.
func (r *Record) matches() []Match {
	list := []Match{MatchExact}
	if r.ExactOnly != "" {
		return list
	}
	if r.Subject != "" {
		list = append(list, MatchSubject)
	}
	if r.Binding.Tool != "" && !r.AboutCommit() {
		list = append(list, MatchTool)
	}
	return list
}

// covered describes the calls that a grant would cover, and whether another gateway runs them.
func (r *Record) covered(m Match) string {
	if r.Binding.Elsewhere {
		return r.covers(m) + ", run by another gateway outside of any sandbox of this one"
	}
	return r.covers(m)
}

// covers describes the calls that a grant would cover: "any git command, any arguments, in
// workspace here".
func (r *Record) covers(m Match) string {
	switch {
	case m == MatchTool:
		return "any call of " + r.Binding.Tool
	case m == MatchExact && r.AboutCommit():
		return "the very same changes"
	case m == MatchExact:
		return "this very call again"
	case r.SubjectCovers != "":
		return r.SubjectCovers
	case r.AboutCommit():
		return "any changes of " + r.Binding.Tool + " with subject " + text.Visible(r.Subject)
	}
	return "any call of " + r.Binding.Tool + " with subject " + text.Visible(r.Subject)
}

// byWhom describes the callers that a grant would cover: "by all runs and calls of user:ada". A
// session that the gateway named after a run is described as that run. A session named by a
// client is quoted, since only the client defines its use.
func (r *Record) byWhom(scope Scope) string {
	session := r.Session[strings.IndexByte(r.Session, '.')+1:] // without the device
	if scope == Session && session == r.Run && isOfGateway(session) {
		return "by this run alone"
	}
	who := r.RequestedBy.String()
	if r.OnBehalfOf != r.RequestedBy && r.OnBehalfOf != (access.Principal{}) {
		who += " for " + r.OnBehalfOf.String()
	}
	if scope == Session {
		return "by runs and calls of " + who + " in session " + text.Visible(session)
	}
	return "by all runs and calls of " + who
}

// isOfGateway reports whether a run's name was assigned by the gateway: a ULID, which clients
// may not use as a name.
func isOfGateway(name string) bool {
	_, err := ulid.ParseStrict(name)
	return err == nil
}

// inWords formats a duration in whole days, hours or minutes: "7 days", "8 h".
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day && d%day == 0:
		if d == day {
			return "1 day"
		}
		return fmt.Sprintf("%d days", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// width orders the matchers from narrow to wide.
func (m Match) width() int {
	switch m {
	case MatchExact:
		return 0
	case MatchSubject:
		return 1
	default:
		return 2
	}
}
