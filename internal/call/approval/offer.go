package approval

import (
	"context"
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

// describe adds to the prompt of a record the possible answers, and the earlier calls.
func describe(ctx context.Context, store Store, limits Limits, rec *Record) error {
	rec.Prompt.Scopes, rec.Prompt.ExactOnly = offers(*rec, limits), rec.ExactOnly
	if !rec.AboutSession() && !rec.AboutGateway() {
		if err := addLately(ctx, store, rec); err != nil {
			return err
		}
	}
	if rec.AboutCommit() || rec.AboutSecret() || rec.AboutSession() || rec.AboutGateway() {
		return nil // the difference is in the diff, or nothing can be compared
	}
	last, found, err := store.LastAllowed(ctx, rec.RequestedBy, rec.Binding.Tool)
	if err != nil {
		return err
	}
	rec.Prompt.LastAllowed, rec.Prompt.Differs = found, nil
	if found {
		rec.Prompt.Differs, err = last.Diff(rec.Binding)
	}
	return err
}

// addLately adds to the prompt the number of earlier requests for the same subject, and the
// number of recent calls that each offer would have covered.
func addLately(ctx context.Context, store Store, rec *Record) error {
	n, err := store.Lately(ctx, LatelyQuery{
		RequestedBy: rec.RequestedBy, OnBehalfOf: rec.OnBehalfOf, Session: rec.Session, Subject: rec.Subject,
		CallDigest: rec.CallDigest, ComparedAs: rec.ComparedAs(), Since: rec.CreatedAt.Add(-LatelySpan),
	})
	if err != nil {
		return fmt.Errorf("counting earlier calls: %w", err)
	}
	rec.Prompt.AskedLately = n.Asked.All.Tool
	if rec.Subject != "" {
		rec.Prompt.AskedLately = n.Asked.All.Subject
	}
	for i, o := range rec.Prompt.Scopes {
		rec.Prompt.Scopes[i].CoveredLately = n.Asked.covered(o) + n.Unasked.covered(o)
	}
	return nil
}

// LatelySpan is the time span of the counts that approvers see.
const LatelySpan = 7 * 24 * time.Hour

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
	session := r.Session[strings.IndexByte(r.Session, '.')+1:]                                           // without the device
	if _, notULID := ulid.ParseStrict(session); scope == Session && session == r.Run && notULID == nil { // no client may use a ULID
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

// inWords formats a duration in whole days, hours or minutes: "7 days", "8 h".
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= day && d%day == 0:
		return text.Plural(d/day, "day")
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

// covered is the number of these calls that the offered grant would have covered.
func (c Counted) covered(o Offer) int64 {
	switch o.Scope {
	case Session:
		return c.InSession.Of(o.Match)
	case Timeboxed:
		return c.All.Of(o.Match)
	default:
		return 0
	}
}

// Matching counts records by grant matcher.
type Matching struct{ Exact, Subject, Tool int64 }

// Of returns the count for a matcher.
func (m Matching) Of(match Match) int64 {
	switch match {
	case MatchExact:
		return m.Exact
	case MatchSubject:
		return m.Subject
	case MatchTool:
		return m.Tool
	default:
		return 0
	}
}
