package approval

import (
	"context"
	"fmt"
	"time"

	"palyra/internal/core/access"
)

// compose creates the record of an ask, with the earlier calls and the offers in its prompt.
func compose(ctx context.Context, store Store, id string, ask *Ask, limits Limits, at time.Time) (Record, error) {
	rec, err := ask.record(id, at)
	if err == nil {
		err = describe(ctx, store, limits, &rec)
	}
	return rec, err
}

// describe adds to the prompt of a record the possible answers, and the comparison with earlier
// calls.
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

// LatelyQuery selects the earlier calls of a requester.
type LatelyQuery struct {
	RequestedBy, OnBehalfOf      access.Principal
	Session, Subject, CallDigest string
	// ComparedAs is Record.ComparedAs.
	ComparedAs string
	// Since is the start of the counted time.
	Since time.Time
}

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
