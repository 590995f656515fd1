package approval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// grantBook holds the standing grants in memory, so that a look-up does not read the store.
// Desk.mu guards it. The transaction that counts a use, not this book, decides whether the
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

func newGrantBook(idle time.Duration) *grantBook {
	return &grantBook{
		idle: idle, byID: map[string]Grant{}, byOwner: map[access.Principal][]string{},
		seen: map[string]time.Time{}, perSession: map[string]int{}, minting: map[string]bool{},
	}
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
	rest := slices.DeleteFunc(b.byOwner[g.Principal], func(other string) bool { return other == id })
	if len(rest) == 0 {
		delete(b.byOwner, g.Principal)
	} else {
		b.byOwner[g.Principal] = rest
	}
	if g.Scope == Session {
		if decrement(b.perSession, g.Session); b.perSession[g.Session] == 0 {
			delete(b.seen, g.Session)
		}
	}
}

// ends returns the time at which a grant expires; activity in its session may extend it.
func (b *grantBook) ends(g Grant) time.Time {
	if g.Scope != Session {
		return g.ExpiresAt
	}
	idle := b.seen[g.Session].Add(b.idle)
	if idle.Before(g.ExpiresAt) {
		return idle
	}
	return g.ExpiresAt
}

func (b *grantBook) lastSeen(session string) time.Time { return b.seen[session] }

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

// keepGrant updates the memory to a grant that has become durable. A closed grant never
// reappears, independent of the order of updates.
func (d *Desk) keepGrant(g Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, minting := d.grants.minting[g.ID]
	switch _, known := d.grants.byID[g.ID]; {
	case g.closed():
		d.grants.remove(g.ID)
		d.due.remove(g.ID)
		if minting {
			d.grants.minting[g.ID] = true
		}
	case known:
		d.grants.put(g)
	case minting && !d.grants.minting[g.ID]:
		d.grants.put(g)
		d.schedule(g.ID, true, d.grants.ends(g))
	}
}

// beginMint registers a grant that is being stored. The returned function is called when it is
// stored or has failed.
func (d *Desk) beginMint(id string) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.grants.minting[id] = false
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.grants.minting, id)
	}
}

// Grants returns the standing grants that cover a call, narrowest first; none while the gateway
// is frozen. The call counts as activity of its session.
func (d *Desk) Grants(_ context.Context, q GrantQuery) ([]Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.grants.touch(q.Session, now)
	if d.frozen != nil {
		return nil, nil
	}
	return d.grants.find(q, now), nil
}

// GrantAnswer returns the allowing answer of a grant for an ask. The grant must be valid and
// cover the call: otherwise the error is reason.NotFound, ApprovalRevoked, ApprovalExpired, or
// BindingMismatch with the fields that differ. The use is counted only by Consume.
func (d *Desk) GrantAnswer(ctx context.Context, grantID string, ask Ask) (Answer, error) {
	if err := ask.check(d.limits); err != nil {
		return Answer{}, err
	}
	g, err := d.store.Grant(ctx, grantID)
	if err != nil {
		return Answer{}, notFound(err, "grant", grantID)
	}
	if err := d.stands(g); err != nil {
		return Answer{}, err
	}
	if g.usedUp() {
		return Answer{}, grantClosed(g)
	}
	if !g.Covers(ask.Query()) {
		return Answer{}, d.uncovered(ctx, g, ask)
	}
	return answerOfGrant(g, ask), nil
}

// stands returns nil if a grant is valid now. The unit that uses it checks its remaining uses.
func (d *Desk) stands(g Grant) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A grant that is not in the book was closed; the unit that uses the grant detects this.
	_, known := d.grants.byID[g.ID]
	switch now := d.now(); {
	case d.frozen != nil:
		return frozenError(d.frozen)
	case !g.stands(now):
		return grantClosed(g)
	case known && !now.Before(d.grants.ends(g)):
		return reason.Errorf(reason.ApprovalExpired, "grant %s ended: its session was idle", g.ID)
	default:
		return nil
	}
}

// uncovered returns the error with the fields in which a call differs from the granted one.
func (d *Desk) uncovered(ctx context.Context, g Grant, ask Ask) error {
	e := reason.Errorf(reason.BindingMismatch, "grant %s does not cover the call", g.ID)
	rec, err := d.store.Record(ctx, g.ApprovalID)
	if err != nil || rec.Withheld != nil {
		return e
	}
	return mismatch(e, rec, ask)
}

// mismatch adds the fields that differ between a record and an ask.
func mismatch(e *reason.Error, rec Record, ask Ask) error {
	now, err := redacted(ask)
	if err != nil {
		return e
	}
	diffs, err := rec.Binding.Diff(now)
	if err != nil || len(diffs) == 0 {
		return e
	}
	e = &reason.Error{Code: e.Code, Message: e.Message + ": it differs in " + fieldNames(diffs)}
	for _, diff := range diffs {
		e = e.WithField(diff.Field, fmt.Sprintf("%s -> %s", diff.Was, diff.Is))
	}
	return e
}

func fieldNames(diffs []tool.Difference) string {
	text := ""
	for i, diff := range diffs {
		if i > 0 {
			text += ", "
		}
		text += diff.Field
	}
	return text
}

// ListGrants returns one page of grants, newest first, and the token of the next page.
func (d *Desk) ListGrants(ctx context.Context, f GrantFilter) ([]Grant, string, error) {
	if err := checkToken(f.PageToken); err != nil {
		return nil, "", err
	}
	page, next, err := d.store.Grants(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("listing grants: %w", err)
	}
	return page, next, nil
}

// GetGrant returns one grant, or reason.NotFound.
func (d *Desk) GetGrant(ctx context.Context, id string) (Grant, error) {
	g, err := d.store.Grant(ctx, id)
	if err != nil {
		return Grant{}, notFound(err, "grant", id)
	}
	return g, nil
}
