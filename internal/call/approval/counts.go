package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/core/access"
)

// Tallies are how many records a filter chooses.
type Tallies struct {
	Total      int64
	ByState    map[State]int64
	BySeverity map[string]int64
	BySubject  map[SubjectType]int64
	ByTool     map[string]int64
}

// Add counts n more records of these traits.
func (t *Tallies) Add(state State, severity string, subject SubjectType, toolName string, n int64) {
	if t.ByState == nil {
		t.ByState, t.BySeverity = map[State]int64{}, map[string]int64{}
		t.BySubject, t.ByTool = map[SubjectType]int64{}, map[string]int64{}
	}
	t.Total += n
	t.ByState[state] += n
	t.BySeverity[severity] += n
	t.BySubject[subject] += n
	t.ByTool[toolName] += n
}

// LatelyQuery is about what a requester did before.
type LatelyQuery struct {
	RequestedBy, OnBehalfOf      access.Principal
	Session, Subject, CallDigest string
	// ComparedAs is that of the record.
	ComparedAs string
	// Since is when counting begins.
	Since time.Time
}

// MostLately bounds what is counted of what was asked before, and of what ran without.
const MostLately = 10_000

// LatelySpan is how far back people are told of that.
const LatelySpan = 7 * 24 * time.Hour

// Lately is what a requester did with a tool: about which calls people were asked, and
// which ran without, by policy or a grant. Calls that waited together on one record are
// one.
type Lately struct {
	Asked, Unasked Counted
}

// Counted is how many calls there are, at most MostLately of the newest: all of them,
// those of the same subject, and those that are the very same call.
type Counted struct {
	All, InSession Matching
}

// Add counts a call.
func (c *Counted) Add(q LatelyQuery, session, subject, digest string) {
	counts := []*Matching{&c.All}
	if session == q.Session {
		counts = append(counts, &c.InSession)
	}
	for _, m := range counts {
		m.Tool++
		if subject == q.Subject {
			m.Subject++
		}
		if digest == q.CallDigest {
			m.Exact++
		}
	}
}

// covered is how many of the calls a yes on offer would have covered.
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

// Matching counts records by how a grant would match them.
type Matching struct{ Exact, Subject, Tool int64 }

// Of is the count for a matcher.
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

// Tally counts what List would list, on all pages.
func (d *Desk) Tally(ctx context.Context, f Filter) (Tallies, error) {
	t, err := d.store.Tallied(ctx, f)
	if err != nil {
		return Tallies{}, fmt.Errorf("counting approvals: %w", err)
	}
	return t, nil
}

// addLately says in the prompt how often the same was asked in the days before, and
// what each yes on offer would have covered of that and of what ran unasked.
func (d *Desk) addLately(ctx context.Context, rec *Record) error {
	n, err := d.store.Lately(ctx, LatelyQuery{
		RequestedBy: rec.RequestedBy, OnBehalfOf: rec.OnBehalfOf, Session: rec.Session, Subject: rec.Subject,
		CallDigest: rec.CallDigest, ComparedAs: rec.ComparedAs(), Since: rec.CreatedAt.Add(-LatelySpan),
	})
	if err != nil {
		return fmt.Errorf("counting what was done before: %w", err)
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

// Counts are the numbers of pending records and standing grants.
type Counts struct {
	// Pending is how many records wait for votes.
	Pending int
	// Grants is how many grants stand.
	Grants int
}

// Counts returns the numbers of now, without reading the store.
func (d *Desk) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := Counts{Grants: len(d.grants.byID)}
	for _, e := range d.open {
		if e.rec.State == Pending {
			c.Pending++
		}
	}
	return c
}
