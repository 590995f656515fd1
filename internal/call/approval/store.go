package approval

import (
	"context"
	"errors"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
)

// Tx is one unit of the store's writer. Units are serialized, and each reads the writes of the
// previous ones. If the function of a unit returns an error, the unit has no effect.
type Tx interface {
	RecordTx
	GrantTx
	// Freeze returns the freeze row, or nil.
	Freeze() (*FreezeState, error)
	// SetFreeze stores the freeze row, or removes it if nil.
	SetFreeze(*FreezeState) error
	// Emit journals events with the unit.
	Emit(drafts ...event.Draft)
}

// RecordTx reads and writes records in a unit.
type RecordTx interface {
	// Record returns the stored record, or ErrNotFound.
	Record(id string) (Record, error)
	// InsertRecord stores a new record and sets its Revision.
	InsertRecord(r *Record) error
	// ReplaceRecord stores r in place of the record with that state and version, and sets its
	// Revision; otherwise it returns ErrStale.
	ReplaceRecord(r *Record, state State, version int64) error
	// RewriteRecord is ReplaceRecord for a record whose call has changed: it also stores
	// Prompt, Binding and Request.
	RewriteRecord(r *Record, state State, version int64) error
}

// GrantTx reads and writes grants in a unit.
type GrantTx interface {
	// Grant returns the stored grant, or ErrNotFound.
	Grant(id string) (Grant, error)
	// InsertGrant stores a new grant.
	InsertGrant(g Grant) error
	// ReplaceGrant stores g in place of the grant with that version; otherwise it returns
	// ErrStale.
	ReplaceGrant(g Grant, version int64) error
}

// Store holds records, grants and the freeze row. Records and Changes omit Request.
type Store interface {
	// Update runs fn as one unit and returns when the unit and its events are durable. After an
	// error the unit has no effect.
	Update(ctx context.Context, fn func(Tx) error) error
	// Record and Grant return ErrNotFound if the id does not exist.
	Record(ctx context.Context, id string) (Record, error)
	Grant(ctx context.Context, id string) (Grant, error)
	// Records and Grants return one page, newest first, and the token of the next page, "" at
	// the end; PageSize defines page sizes.
	Records(ctx context.Context, f Filter) ([]Record, string, error)
	Grants(ctx context.Context, f GrantFilter) ([]Grant, string, error)
	// Freeze returns the freeze row, or nil.
	Freeze(ctx context.Context) (*FreezeState, error)
	RecordHistory
}

// RecordHistory finds changed and past records.
type RecordHistory interface {
	// Changes returns at most limit records with a revision above after, in the order of
	// revisions.
	Changes(ctx context.Context, after int64, limit int) ([]Record, error)
	// LastRevision returns the highest revision, or 0.
	LastRevision(ctx context.Context) (int64, error)
	// Tallied counts the records that a filter selects, on all of its pages.
	Tallied(ctx context.Context, f Filter) (Tallies, error)
	// Lately counts earlier approval requests, and earlier calls without one. The calls without one
	// are the emitted events with an Unasked.
	Lately(ctx context.Context, q LatelyQuery) (Lately, error)
	// LastAllowed returns the binding of the latest approved record of the principal and tool.
	LastAllowed(ctx context.Context, p access.Principal, toolName string) (tool.Binding, bool, error)
}

// Page sizes of Records.List and Grants.List.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// Filter selects records. An empty field selects all.
type Filter struct {
	Traits
	// Except excludes records that have one of these traits.
	Except Traits
	// Since and Until bound CreatedAt: since <= created < until.
	Since, Until time.Time
	// PageSize is at most MaxPage; PageToken is the token of the previous page, in the same
	// order.
	PageSize  int
	PageToken string
	// Ascending lists the oldest first.
	Ascending bool
}

// Traits are the filterable properties of records.
type Traits struct {
	States       []State
	SubjectTypes []SubjectType
	// Principals are the requesters, or the users on whose behalf they requested.
	Principals []access.Principal
	// Tools are tool names. They select calls, commits of their changes, and secrets for their
	// programs.
	Tools      []string
	Severities []string
}

// Admits reports whether f selects r, ignoring the page.
func (f Filter) Admits(r Record) bool {
	return admits(f.States, r.State) && admits(f.SubjectTypes, r.SubjectType) &&
		admits(f.Tools, r.Binding.Tool) && admits(f.Severities, r.Severity) &&
		(len(f.Principals) == 0 || f.wasAsked(r)) && !f.Except.any(r) &&
		(f.Since.IsZero() || !r.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || r.CreatedAt.Before(f.Until))
}

// wasAsked reports whether r belongs to one of the principals.
func (t Traits) wasAsked(r Record) bool {
	return slices.Contains(t.Principals, r.RequestedBy) || slices.Contains(t.Principals, r.OnBehalfOf)
}

// any reports whether r has one of the traits.
func (t Traits) any(r Record) bool {
	return slices.Contains(t.States, r.State) || slices.Contains(t.SubjectTypes, r.SubjectType) || t.wasAsked(r) ||
		slices.Contains(t.Tools, r.Binding.Tool) || slices.Contains(t.Severities, r.Severity)
}

// GrantFilter selects grants. An empty field selects all.
type GrantFilter struct {
	// Principal is the principal whose calls are covered, or on whose behalf they are made.
	Principal access.Principal
	Session   string
	// Open excludes grants that were revoked or have ended.
	Open      bool
	PageSize  int
	PageToken string
}

// Admits reports whether f selects g, ignoring the page.
func (f GrantFilter) Admits(g Grant) bool {
	return (f.Principal.IsZero() || f.Principal == g.Principal || f.Principal == g.OnBehalfOf) &&
		(f.Session == "" || f.Session == g.Session) && (!f.Open || g.Open())
}

func admits[T comparable](list []T, v T) bool {
	return len(list) == 0 || slices.Contains(list, v)
}

// PageSize returns the number of rows of a page for a requested size.
func PageSize(requested int) int {
	if requested <= 0 {
		return DefaultPage
	}
	return min(requested, MaxPage)
}

// MostLately bounds the counts of earlier approval requests and of earlier calls that ran
// without one.
const MostLately = 10_000

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

// LatelyQuery selects the earlier calls of a requester.
type LatelyQuery struct {
	RequestedBy, OnBehalfOf      access.Principal
	Session, Subject, CallDigest string
	// ComparedAs is Record.ComparedAs.
	ComparedAs string
	// Since is the start of the counted time.
	Since time.Time
}

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

// ErrStale means that the state or version of the row differs from the expected one.
var ErrStale = errors.New("approval: state or version has changed")

// openRequests holds the requests that are pending or allowed, and the calls that wait for
// them, while they are open. Each method is atomic.
//
// It wakes waiting calls, matches identical asks and lists requests whose deadlines passed. It
// MUST NOT allow anything: the Store is authoritative. requestsInMemory is the implementation for
// one process; several replicas need one that they share.
type openRequests interface {
	waiters
	// settle updates a request to its record that has become durable, and wakes its waiters.
	// Records may come out of order; an older one changes nothing.
	settle(rec Record)
	// anticipate adds the call of an edit that is about to be stored, so that settle finds it.
	anticipate(id string, ask *Ask)
	// find returns an open request; the bool is false if the id is not open.
	find(id, callDigest string) (openRequest, bool)
	// each calls fn with every open record. fn MUST NOT change or keep it.
	each(fn func(*Record))
	// overdue removes at most limit deadlines that have passed and returns their ids, and the
	// next deadline, which is zero if none is left.
	overdue(now time.Time, limit int) (ids []string, next time.Time)
	// postpone moves the deadlines of requests that could not be expired, and returns err to
	// their waiters.
	postpone(ids []string, until time.Time, err error)
}

// waiters attaches calls to the open requests.
type waiters interface {
	// enter finds the request that serves an ask and attaches the call to it. If no request
	// does, it reserves one, so that an identical ask joins it instead of creating another.
	enter(ask *Ask) (place, error)
	// abandon removes a reserved request that could not be stored, and returns the error to its
	// waiters.
	abandon(p place, err error)
	// look returns the state of a waiting call, and marks its record as passed to the observer.
	look(p place) waiter
	// detach removes a waiter without side effects.
	detach(p place)
	// leave removes a waiter and returns the record. The bool is true if the waiter was the
	// last one of a pending request and withdraws it; no call may then join the request.
	leave(p place, withdraws bool) (Record, bool)
	// reopen lets calls join a request again that could not be withdrawn.
	reopen(p place)
	// release offers the answer of an allowed record in that version to identical asks again.
	release(id string, version int64)
}
