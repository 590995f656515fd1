package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/access"
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

// LatelyQuery is about what a requester was asked about before.
type LatelyQuery struct {
	RequestedBy, OnBehalfOf      access.Principal
	Session, Subject, CallDigest string
	// ComparedAs is that of the record.
	ComparedAs string
	// Since is when counting begins.
	Since time.Time
}

// MostLately bounds what is counted of what was asked before.
const MostLately = 10_000

// latelySpan is how far back people are told of what was asked.
const latelySpan = 7 * 24 * time.Hour

// Lately is how many records there are of a requester and a tool, at most MostLately of
// the newest: all of them, those of the same subject, and those of the very same call.
// A record is one call; calls that waited together on one are one.
type Lately struct {
	All, InSession Matching
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
// what each yes on offer would have covered of that.
func (d *Desk) addLately(ctx context.Context, rec *Record) error {
	n, err := d.store.Lately(ctx, LatelyQuery{
		RequestedBy: rec.RequestedBy, OnBehalfOf: rec.OnBehalfOf, Session: rec.Session, Subject: rec.Subject,
		CallDigest: rec.CallDigest, ComparedAs: rec.ComparedAs(), Since: rec.CreatedAt.Add(-latelySpan),
	})
	if err != nil {
		return fmt.Errorf("counting what was asked before: %w", err)
	}
	rec.Prompt.AskedLately = n.All.Tool
	if rec.Subject != "" {
		rec.Prompt.AskedLately = n.All.Subject
	}
	for i := range rec.Prompt.Scopes {
		switch o := &rec.Prompt.Scopes[i]; o.Scope {
		case Session:
			o.CoveredLately = n.InSession.Of(o.Match)
		case Timeboxed:
			o.CoveredLately = n.All.Of(o.Match)
		}
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
