package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/core/access"
)

// Tallies are the numbers of records that a filter selects.
type Tallies struct {
	Total      int64
	ByState    map[State]int64
	BySeverity map[string]int64
	BySubject  map[SubjectType]int64
	ByTool     map[string]int64
}

// Add counts n more records with these traits.
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

// LatelyQuery selects the earlier calls of a requester.
type LatelyQuery struct {
	RequestedBy, OnBehalfOf      access.Principal
	Session, Subject, CallDigest string
	// ComparedAs is Record.ComparedAs.
	ComparedAs string
	// Since is the start of the counted time.
	Since time.Time
}

// MostLately bounds the counts of earlier approval requests and of earlier calls that ran
// without one.
const MostLately = 10_000

// LatelySpan is the time span of the counts that approvers see.
const LatelySpan = 7 * 24 * time.Hour

// Lately counts the earlier calls of a requester with a tool: calls that required an approval
// request, and calls that policy or a grant allowed without one. Calls that waited together on
// one record count once.
type Lately struct {
	Asked, Unasked Counted
}

// Counted counts at most MostLately of the newest calls: all of them, those with the same
// subject, and identical ones.
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

// Tally counts the records that List would list, on all pages.
func (d *Desk) Tally(ctx context.Context, f Filter) (Tallies, error) {
	t, err := d.store.Tallied(ctx, f)
	if err != nil {
		return Tallies{}, fmt.Errorf("counting approvals: %w", err)
	}
	return t, nil
}

// addLately adds to the prompt the number of earlier requests for the same subject, and the
// number of recent calls that each offer would have covered.
func (d *Desk) addLately(ctx context.Context, rec *Record) error {
	n, err := d.store.Lately(ctx, LatelyQuery{
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

// Counts are the numbers of pending records and standing grants.
type Counts struct {
	// Pending is the number of records that wait for votes.
	Pending int
	// Grants is the number of standing grants.
	Grants int
}

// Counts returns the current numbers without reading the store.
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
