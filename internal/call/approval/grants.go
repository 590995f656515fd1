package approval

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"palyra/internal/call/approval/internal/deadline"
	"palyra/internal/core/reason"
)

// Grants finds, uses, lists and closes standing grants. It is safe for concurrent use.
type Grants struct {
	store   Store
	judge   Judge
	freezer *Freezer
	limits  Limits
	now     func() time.Time

	mu   sync.Mutex
	book *grantBook
	due  *deadline.Queue
}

// keep updates the book to a grant that has become durable. A closed grant never reappears,
// independent of the order of updates.
func (s *Grants) keep(g Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, minting := s.book.minting[g.ID]
	switch _, known := s.book.byID[g.ID]; {
	case !g.Open():
		s.book.remove(g.ID)
		s.due.Remove(g.ID)
		if minting {
			s.book.minting[g.ID] = true
		}
	case known:
		s.book.put(g)
	case minting && !s.book.minting[g.ID]:
		s.book.put(g)
		s.due.Set(g.ID, s.book.ends(g))
	}
}

// Find returns the standing grants that cover a call, narrowest first; none while the gateway
// is frozen. The call counts as activity of its session.
func (s *Grants) Find(_ context.Context, q GrantQuery) ([]Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.book.touch(q.Session, now)
	if s.freezer.thawed() != nil {
		return nil, nil
	}
	return s.book.find(q, now), nil
}

// Answer returns the allowing answer of a grant for an ask. The grant must be valid and cover
// the call: otherwise the error is reason.NotFound, ApprovalRevoked, ApprovalExpired, or
// BindingMismatch with the fields that differ. The use is counted only by Requests.Consume.
func (s *Grants) Answer(ctx context.Context, grantID string, ask Ask) (Answer, error) {
	if err := ask.check(s.limits); err != nil {
		return Answer{}, err
	}
	g, err := s.Get(ctx, grantID)
	if err != nil {
		return Answer{}, err
	}
	if err := s.stands(g); err != nil {
		return Answer{}, err
	}
	if g.usedUp() {
		return Answer{}, grantClosed(g)
	}
	if !g.Covers(ask.Query()) {
		return Answer{}, s.uncovered(ctx, g, ask)
	}
	return answerOfGrant(g, ask), nil
}

// Get returns one grant, or reason.NotFound.
func (s *Grants) Get(ctx context.Context, id string) (Grant, error) {
	g, err := s.store.Grant(ctx, id)
	if err != nil {
		return Grant{}, notFound(err, "grant", id)
	}
	return g, nil
}

// stands returns nil if a grant is valid now. The unit that uses it checks its remaining uses.
func (s *Grants) stands(g Grant) error {
	if err := s.freezer.thawed(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A grant that is not in the book was closed; the unit that uses the grant detects this.
	_, known := s.book.byID[g.ID]
	switch now := s.now(); {
	case !g.stands(now):
		return grantClosed(g)
	case known && !now.Before(s.book.ends(g)):
		return reason.Errorf(reason.ApprovalExpired, "grant %s ended: its session was idle", g.ID)
	default:
		return nil
	}
}

// uncovered returns the error with the fields in which a call differs from the granted one.
func (s *Grants) uncovered(ctx context.Context, g Grant, ask Ask) error {
	e := reason.Errorf(reason.BindingMismatch, "grant %s does not cover the call", g.ID)
	rec, err := s.store.Record(ctx, g.ApprovalID)
	if err != nil || rec.Withheld != nil {
		return e
	}
	now, err := redacted(ask)
	if err != nil {
		return e
	}
	diffs, err := rec.Binding.Diff(now)
	if err != nil || len(diffs) == 0 {
		return e
	}
	names := make([]string, len(diffs))
	for i, diff := range diffs {
		names[i] = diff.Field
	}
	e = &reason.Error{Code: e.Code, Message: e.Message + ": it differs in " + strings.Join(names, ", ")}
	for _, diff := range diffs {
		e = e.WithField(diff.Field, fmt.Sprintf("%s -> %s", diff.Was, diff.Is))
	}
	return e
}
