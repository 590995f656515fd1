// Package approvaltest provides an approval.Desk on an in-memory store, a judge that counts votes,
// and the conformance suite of stores.
package approvaltest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
)

// Memory is an in-memory Store. Its units behave like those of a real store: they are
// serialized, and one that fails leaves no data.
type Memory struct {
	mu     sync.Mutex
	rows   rows
	events []event.Draft
	fail   []error
}

// row is a stored record with the columns that LastAllowed and Lately read.
type row struct {
	text, request                []byte
	allowed                      bool
	requestedBy, onBehalfOf      access.Principal
	tool                         string
	createdAt, answeredAt        time.Time
	session, subject, callDigest string
}

type rows struct {
	records  map[string]row
	grants   map[string][]byte
	freeze   *approval.FreezeState
	revision int64
}

var _ approval.Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{rows: rows{records: map[string]row{}, grants: map[string][]byte{}}}
}

// FailNext makes the next Update fail with err. Each call makes one more Update fail.
func (m *Memory) FailNext(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = append(m.fail, err)
}

// Events returns the journaled events in order.
func (m *Memory) Events() []event.Draft {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// Update runs fn as one unit.
func (m *Memory) Update(ctx context.Context, fn func(approval.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.fail) > 0 {
		err := m.fail[0]
		m.fail = m.fail[1:]
		return err
	}
	tx := &memoryTx{rows: rows{maps.Clone(m.rows.records), maps.Clone(m.rows.grants), m.rows.freeze, m.rows.revision}}
	if err := fn(tx); err != nil {
		return err
	}
	m.rows = tx.rows
	m.events = append(m.events, tx.drafts...)
	return nil
}

func (m *Memory) view() rows {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows // Update replaces the rows and never modifies them
}

// Record returns one record.
func (m *Memory) Record(_ context.Context, id string) (approval.Record, error) {
	return m.view().record(id)
}

// Grant returns one grant.
func (m *Memory) Grant(_ context.Context, id string) (approval.Grant, error) {
	return m.view().grant(id)
}

// Records returns one page of records.
func (m *Memory) Records(_ context.Context, f approval.Filter) ([]approval.Record, string, error) {
	all, err := m.view().all()
	if err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(r approval.Record) bool { return !f.Admits(r) })
	page, next := pageOf(all, f.PageSize, f.PageToken, f.Ascending, func(r approval.Record) string { return r.ID })
	return page, next, nil
}

// Tallied counts records.
func (m *Memory) Tallied(_ context.Context, f approval.Filter) (t approval.Tallies, err error) {
	all, err := m.view().all()
	for _, r := range all {
		if f.Admits(r) {
			t.Add(r.State, r.Severity, r.SubjectType, r.Binding.Tool, 1)
		}
	}
	return t, err
}

// Lately counts earlier approval requests, and all calls that ran without one.
func (m *Memory) Lately(_ context.Context, q approval.LatelyQuery) (n approval.Lately, _ error) {
	for _, r := range m.view().records {
		if r.requestedBy != q.RequestedBy || r.onBehalfOf != q.OnBehalfOf || r.tool != q.ComparedAs || r.createdAt.Before(q.Since) {
			continue
		}
		n.Asked.Add(q, r.session, r.subject, r.callDigest)
	}
	for _, d := range m.Events() {
		if u := d.Unasked; u != nil && u.RequestedBy == q.RequestedBy.String() && u.OnBehalfOf == q.OnBehalfOf.String() && u.Tool == q.ComparedAs {
			n.Unasked.Add(q, d.Session, u.Subject, u.CallDigest)
		}
	}
	return n, nil
}

// Grants returns one page of grants.
func (m *Memory) Grants(_ context.Context, f approval.GrantFilter) ([]approval.Grant, string, error) {
	var all []approval.Grant
	for _, text := range m.view().grants {
		g, err := approval.DecodeGrant(text)
		if err != nil {
			return nil, "", err
		}
		if f.Admits(g) {
			all = append(all, g)
		}
	}
	page, next := pageOf(all, f.PageSize, f.PageToken, false, func(g approval.Grant) string { return g.ID })
	return page, next, nil
}

func pageOf[T any](all []T, size int, token string, ascending bool, id func(T) string) ([]T, string) {
	direction := -1
	if ascending {
		direction = 1
	}
	slices.SortFunc(all, func(a, b T) int { return direction * cmp.Compare(id(a), id(b)) })
	all = slices.DeleteFunc(all, func(v T) bool { return token != "" && direction*cmp.Compare(id(v), token) <= 0 })
	if n := approval.PageSize(size); len(all) > n {
		return all[:n], id(all[n-1])
	}
	return all, ""
}

// Changes returns records by revision.
func (m *Memory) Changes(_ context.Context, after int64, limit int) ([]approval.Record, error) {
	all, err := m.view().all()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r approval.Record) bool { return r.Revision <= after })
	slices.SortFunc(all, func(a, b approval.Record) int { return cmp.Compare(a.Revision, b.Revision) })
	return all[:min(len(all), limit)], nil
}

// LastRevision returns the highest revision.
func (m *Memory) LastRevision(context.Context) (int64, error) { return m.view().revision, nil }

// Freeze returns the freeze row.
func (m *Memory) Freeze(context.Context) (*approval.FreezeState, error) { return m.view().freeze, nil }

// LastAllowed returns the binding of the last allowed record.
func (m *Memory) LastAllowed(_ context.Context, p access.Principal, name string) (tool.Binding, bool, error) {
	var last row
	for _, r := range m.view().records {
		if r.allowed && r.requestedBy == p && r.tool == name && r.answeredAt.After(last.answeredAt) {
			last = r
		}
	}
	if last.text == nil {
		return tool.Binding{}, false, nil
	}
	rec, err := approval.DecodeRecord(last.text, nil)
	return rec.Binding, err == nil, err
}

func (r rows) record(id string) (approval.Record, error) {
	found, ok := r.records[id]
	if !ok {
		return approval.Record{}, approval.ErrNotFound
	}
	return approval.DecodeRecord(found.text, slices.Clone(found.request))
}

func (r rows) grant(id string) (approval.Grant, error) {
	text, ok := r.grants[id]
	if !ok {
		return approval.Grant{}, approval.ErrNotFound
	}
	return approval.DecodeGrant(text)
}

func (r rows) all() ([]approval.Record, error) {
	var list []approval.Record
	for _, found := range r.records {
		rec, err := approval.DecodeRecord(found.text, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	return list, nil
}

// memoryTx is one unit on a copy of the rows.
type memoryTx struct {
	rows

	drafts []event.Draft
}

// Record returns one record, with the changes of the unit.
func (t *memoryTx) Record(id string) (approval.Record, error) { return t.record(id) }

// Grant returns one grant, with the changes of the unit.
func (t *memoryTx) Grant(id string) (approval.Grant, error) { return t.grant(id) }

// InsertRecord stores a new record.
func (t *memoryTx) InsertRecord(r *approval.Record) error {
	if _, exists := t.records[r.ID]; exists {
		return approval.ErrStale
	}
	return t.put(r)
}

// ReplaceRecord stores r in place of an older version.
func (t *memoryTx) ReplaceRecord(r *approval.Record, state approval.State, version int64) error {
	old, err := t.record(r.ID)
	if err != nil || old.State != state || old.Version != version {
		return approval.ErrStale
	}
	return t.put(r)
}

// RewriteRecord is ReplaceRecord, because memory stores all parts together.
func (t *memoryTx) RewriteRecord(r *approval.Record, state approval.State, version int64) error {
	return t.ReplaceRecord(r, state, version)
}

func (t *memoryTx) put(r *approval.Record) error {
	t.revision++
	r.Revision = t.revision
	text, err := approval.EncodeRecord(*r)
	if err != nil {
		return err
	}
	t.records[r.ID] = row{
		text: text, request: slices.Clone(r.Request), allowed: r.State == approval.Allowed || r.State == approval.Consumed,
		requestedBy: r.RequestedBy, onBehalfOf: r.OnBehalfOf, tool: r.ComparedAs(), createdAt: r.CreatedAt, answeredAt: r.AnsweredAt,
		session: r.Session, subject: r.Subject, callDigest: r.CallDigest,
	}
	return nil
}

// InsertGrant stores a new grant.
func (t *memoryTx) InsertGrant(g approval.Grant) error {
	if _, exists := t.grants[g.ID]; exists {
		return approval.ErrStale
	}
	return t.putGrant(g)
}

// ReplaceGrant stores g in place of an older version.
func (t *memoryTx) ReplaceGrant(g approval.Grant, version int64) error {
	old, err := t.grant(g.ID)
	if err != nil || old.Version != version {
		return approval.ErrStale
	}
	return t.putGrant(g)
}

func (t *memoryTx) putGrant(g approval.Grant) error {
	text, err := approval.EncodeGrant(g)
	if err != nil {
		return err
	}
	t.grants[g.ID] = text
	return nil
}

// Freeze returns the freeze row.
func (t *memoryTx) Freeze() (*approval.FreezeState, error) { return t.freeze, nil }

// SetFreeze stores the freeze row.
func (t *memoryTx) SetFreeze(s *approval.FreezeState) error {
	t.freeze = s
	return nil
}

// Emit journals events with the unit.
func (t *memoryTx) Emit(drafts ...event.Draft) { t.drafts = append(t.drafts, drafts...) }
