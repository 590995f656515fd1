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

// Errors of a Store.
var (
	// ErrNotFound means that there is no record or grant with the id.
	ErrNotFound = errors.New("approval: not found")
	// ErrStale means that the row is no longer in the state and version that
	// a replacement expects.
	ErrStale = errors.New("approval: state or version has changed")
)

// Tx is one unit of the store's writer. Units run one after the other, and
// what one wrote the next one reads. Nothing of a unit is kept when its
// function returns an error.
type Tx interface {
	// Record returns the stored record, or ErrNotFound.
	Record(id string) (Record, error)
	// InsertRecord stores a new record and sets its Revision.
	InsertRecord(r *Record) error
	// ReplaceRecord stores r in place of the record of that state and
	// version, and sets its Revision; otherwise ErrStale.
	ReplaceRecord(r *Record, state State, version int64) error
	// RewriteRecord is ReplaceRecord of a record whose call has changed: also Prompt,
	// Binding and Request are stored anew.
	RewriteRecord(r *Record, state State, version int64) error
	// Grant returns the stored grant, or ErrNotFound.
	Grant(id string) (Grant, error)
	// InsertGrant stores a new grant.
	InsertGrant(g Grant) error
	// ReplaceGrant stores g in place of the grant of that version; otherwise
	// ErrStale.
	ReplaceGrant(g Grant, version int64) error
	// Freeze returns the freeze row, nil when there is none.
	Freeze() (*FreezeState, error)
	// SetFreeze stores the freeze row, or removes it with nil.
	SetFreeze(*FreezeState) error
	// Emit journals an event with the unit.
	Emit(drafts ...event.Draft)
}

// Store keeps records, grants and the freeze row.
type Store interface {
	// Update runs fn as one unit and returns when the unit and its events are
	// durable. An error means that nothing was kept.
	Update(ctx context.Context, fn func(Tx) error) error
	// Record and Grant return ErrNotFound when there is none.
	Record(ctx context.Context, id string) (Record, error)
	Grant(ctx context.Context, id string) (Grant, error)
	// Records and Grants return one page, newest first, and the token of the
	// next page, "" at the end; page sizes are as PageSize says. Records and
	// Changes leave Request out.
	Records(ctx context.Context, f Filter) ([]Record, string, error)
	Grants(ctx context.Context, f GrantFilter) ([]Grant, string, error)
	// Changes returns at most limit records with a revision above after, in
	// the order of revisions.
	Changes(ctx context.Context, after int64, limit int) ([]Record, error)
	// LastRevision returns the highest revision, 0 when there is none.
	LastRevision(ctx context.Context) (int64, error)
	// Freeze returns the freeze row, nil when there is none.
	Freeze(ctx context.Context) (*FreezeState, error)
	// Tallied counts the records that a filter chooses, on all of its pages.
	Tallied(ctx context.Context, f Filter) (Tallies, error)
	// Lately counts what was asked before, and what ran without: what units emitted with
	// an Unasked.
	Lately(ctx context.Context, q LatelyQuery) (Lately, error)
	// LastAllowed returns the binding of the record that was answered last
	// with yes for the principal and tool.
	LastAllowed(ctx context.Context, p access.Principal, toolName string) (tool.Binding, bool, error)
}

// Page sizes of List and ListGrants.
const (
	DefaultPage = 50
	MaxPage     = 500
)

// Filter chooses records. An empty field chooses all.
type Filter struct {
	Traits
	// Except leaves out records that have one of these.
	Except Traits
	// Since and Until bound CreatedAt: since <= created < until.
	Since, Until time.Time
	// PageSize is at most MaxPage; PageToken is from the page before, in the same
	// order.
	PageSize  int
	PageToken string
	// Ascending is the oldest first.
	Ascending bool
}

// Traits are what records are told apart by.
type Traits struct {
	States       []State
	SubjectTypes []SubjectType
	// Principals are who asked, or on whose behalf.
	Principals []access.Principal
	// Tools are tools by name: their calls, what those changed, and the secrets that
	// their programs get.
	Tools      []string
	Severities []string
}

// Admits reports whether f chooses r, leaving the page aside.
func (f Filter) Admits(r Record) bool {
	return admits(f.States, r.State) && admits(f.SubjectTypes, r.SubjectType) &&
		admits(f.Tools, r.Binding.Tool) && admits(f.Severities, r.Severity) &&
		(len(f.Principals) == 0 || f.asked(r)) && !f.Except.any(r) &&
		(f.Since.IsZero() || !r.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || r.CreatedAt.Before(f.Until))
}

// asked reports whether r is of one of the principals.
func (t Traits) asked(r Record) bool {
	return slices.Contains(t.Principals, r.RequestedBy) || slices.Contains(t.Principals, r.OnBehalfOf)
}

// any reports whether r has one of the traits.
func (t Traits) any(r Record) bool {
	return slices.Contains(t.States, r.State) || slices.Contains(t.SubjectTypes, r.SubjectType) || t.asked(r) ||
		slices.Contains(t.Tools, r.Binding.Tool) || slices.Contains(t.Severities, r.Severity)
}

// GrantFilter chooses grants. An empty field chooses all.
type GrantFilter struct {
	// Principal is whose calls are covered, or on whose behalf.
	Principal access.Principal
	Session   string
	// Open leaves out grants that were revoked or have ended.
	Open      bool
	PageSize  int
	PageToken string
}

// Admits reports whether f chooses g, leaving the page aside.
func (f GrantFilter) Admits(g Grant) bool {
	return (f.Principal.IsZero() || f.Principal == g.Principal || f.Principal == g.OnBehalfOf) &&
		(f.Session == "" || f.Session == g.Session) && (!f.Open || !g.closed())
}

func admits[T comparable](list []T, v T) bool {
	return len(list) == 0 || slices.Contains(list, v)
}

// PageSize returns the number of rows of a page for an asked size.
func PageSize(asked int) int {
	if asked <= 0 {
		return DefaultPage
	}
	return min(asked, MaxPage)
}
