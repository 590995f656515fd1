package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/access"
	"palyra/internal/approval"
	"palyra/internal/tool"
)

// Approvals is the approval.Store of the embedded store.
type Approvals struct{ db *DB }

var _ approval.Store = (*Approvals)(nil)

// NewApprovals returns the approvals in db.
func NewApprovals(db *DB) *Approvals { return &Approvals{db: db} }

// Update runs fn as one unit of the writer.
func (a *Approvals) Update(ctx context.Context, fn func(approval.Tx) error) error {
	_, err := a.db.Commit(ctx, Unit{Check: func(tx *Tx) error { return fn(approvalTx{tx}) }})
	return err
}

// Record returns one record, or approval.ErrNotFound.
func (a *Approvals) Record(ctx context.Context, id string) (rec approval.Record, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		rec, err = c.approvalRecord(id)
		return err
	})
	return rec, err
}

// Grant returns one grant, or approval.ErrNotFound.
func (a *Approvals) Grant(ctx context.Context, id string) (g approval.Grant, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		g, err = c.grant(id)
		return err
	})
	return g, err
}

// Records returns one page of records, newest first.
func (a *Approvals) Records(ctx context.Context, f approval.Filter) (page []approval.Record, next string, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		page, next, err = c.approvalRecords(f)
		return err
	})
	return page, next, err
}

// Grants returns one page of grants, newest first.
func (a *Approvals) Grants(ctx context.Context, f approval.GrantFilter) (page []approval.Grant, next string, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		page, next, err = c.grants(f)
		return err
	})
	return page, next, err
}

// Changes returns records by revision.
func (a *Approvals) Changes(ctx context.Context, after int64, limit int) (list []approval.Record, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		return c.Query("SELECT body FROM approvals WHERE revision > ?1 ORDER BY revision LIMIT ?2",
			appendRecord(&list), after, limit)
	})
	return list, err
}

// LastRevision returns the highest revision, 0 when there is none.
func (a *Approvals) LastRevision(ctx context.Context) (revision int64, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		revision, err = c.approvalRevision()
		return err
	})
	return revision, err
}

// Freeze returns the freeze row, nil when there is none.
func (a *Approvals) Freeze(ctx context.Context) (s *approval.FreezeState, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		s, err = c.freeze()
		return err
	})
	return s, err
}

// LastAllowed returns the binding of the record that was answered last with
// yes for the principal and tool.
func (a *Approvals) LastAllowed(ctx context.Context, p access.Principal, name string) (b tool.Binding, found bool, err error) {
	const query = `SELECT body FROM approvals
		WHERE state IN ('allowed', 'consumed') AND requested_by = ?1 AND tool = ?2
		ORDER BY answered_at DESC LIMIT 1`
	var list []approval.Record
	err = a.db.Read(ctx, func(c *Conn) error { return c.Query(query, appendRecord(&list), p.String(), name) })
	if err != nil || len(list) == 0 {
		return tool.Binding{}, false, err
	}
	return list[0].Binding, true, nil
}

func appendRecord(list *[]approval.Record) func(*Row) error {
	return func(r *Row) error {
		rec, err := approval.DecodeRecord(r.Bytes(0), nil)
		*list = append(*list, rec)
		return err
	}
}

func (c *Conn) approvalRecord(id string) (rec approval.Record, err error) {
	found, err := c.QueryRow("SELECT body, request FROM approvals WHERE id = ?1", func(r *Row) error {
		rec, err = approval.DecodeRecord(r.Bytes(0), r.Bytes(1))
		return err
	}, id)
	if err == nil && !found {
		err = approval.ErrNotFound
	}
	return rec, err
}

func (c *Conn) grant(id string) (g approval.Grant, err error) {
	found, err := c.QueryRow("SELECT body FROM grants WHERE id = ?1", func(r *Row) error {
		g, err = approval.DecodeGrant(r.Bytes(0))
		return err
	}, id)
	if err == nil && !found {
		err = approval.ErrNotFound
	}
	return g, err
}

func (c *Conn) approvalRevision() (revision int64, err error) {
	_, err = c.QueryRow("SELECT max(revision) FROM approvals", func(r *Row) error { revision = r.Int64(0); return nil })
	return revision, err
}

func (c *Conn) freeze() (*approval.FreezeState, error) {
	var s approval.FreezeState
	found, err := c.QueryRow("SELECT body FROM freeze WHERE id = 1", func(r *Row) error {
		return json.Unmarshal(r.Bytes(0), &s)
	})
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

// approvalRecords reads one row more than a page, to know whether there is a
// next one.
func (c *Conn) approvalRecords(f approval.Filter) (page []approval.Record, next string, err error) {
	size := approval.PageSize(f.PageSize)
	where := whereClause{}
	whereIn(&where, "state", f.States)
	whereIn(&where, "subject_type", f.SubjectTypes)
	if !f.Principal.IsZero() {
		where.add("(requested_by = ? OR on_behalf_of = ?)", f.Principal.String(), f.Principal.String())
	}
	if !f.Since.IsZero() {
		where.add("created_at >= ?", f.Since)
	}
	if !f.Until.IsZero() {
		where.add("created_at < ?", f.Until)
	}
	if f.PageToken != "" {
		where.add("id < ?", f.PageToken)
	}
	err = c.Query("SELECT body FROM approvals"+where.sql(size+1), appendRecord(&page), where.args...)
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID
	}
	return page, next, err
}

func (c *Conn) grants(f approval.GrantFilter) (page []approval.Grant, next string, err error) {
	size := approval.PageSize(f.PageSize)
	where := whereClause{}
	if !f.Principal.IsZero() {
		where.add("(principal = ? OR on_behalf_of = ?)", f.Principal.String(), f.Principal.String())
	}
	if f.Session != "" {
		where.add("session = ?", f.Session)
	}
	if f.Open {
		where.add("open = 1")
	}
	if f.PageToken != "" {
		where.add("id < ?", f.PageToken)
	}
	err = c.Query("SELECT body FROM grants"+where.sql(size+1), func(r *Row) error {
		g, err := approval.DecodeGrant(r.Bytes(0))
		page = append(page, g)
		return err
	}, where.args...)
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID
	}
	return page, next, err
}

// approvalTx is one unit as package approval sees it. Emit is the writer's.
type approvalTx struct{ *Tx }

// Record returns the record as the unit sees it.
func (t approvalTx) Record(id string) (approval.Record, error) { return t.approvalRecord(id) }

// Grant returns the grant as the unit sees it.
func (t approvalTx) Grant(id string) (approval.Grant, error) { return t.grant(id) }

// Freeze returns the freeze row as the unit sees it.
func (t approvalTx) Freeze() (*approval.FreezeState, error) { return t.freeze() }

// InsertRecord stores a new record; approval.ErrStale when the id is taken.
func (t approvalTx) InsertRecord(r *approval.Record) error {
	return t.writeRecord(r, `INSERT INTO approvals
		(revision, state, version, answered_at, body, request, subject_type, requested_by, on_behalf_of, tool, created_at, id)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT (id) DO NOTHING`,
		r.SubjectType, r.RequestedBy.String(), r.OnBehalfOf.String(), r.ComparedAs(), r.CreatedAt, r.ID)
}

// ReplaceRecord stores r in place of that state and version.
func (t approvalTx) ReplaceRecord(r *approval.Record, state approval.State, version int64) error {
	return t.writeRecord(r, `UPDATE approvals
		SET revision = ?1, state = ?2, version = ?3, answered_at = ?4, body = ?5, request = ?6
		WHERE id = ?7 AND state = ?8 AND version = ?9`, r.ID, state, version)
}

func (t approvalTx) writeRecord(r *approval.Record, query string, args ...any) error {
	revision, err := t.approvalRevision()
	if err != nil {
		return err
	}
	stored := *r
	stored.Revision = revision + 1
	body, err := approval.EncodeRecord(stored)
	if err != nil {
		return err
	}
	head := []any{stored.Revision, r.State, r.Version, r.AnsweredAt, body, []byte(r.Request)}
	if err := changeOne(t.Exec(query, append(head, args...)...)); err != nil {
		return err
	}
	r.Revision = stored.Revision
	return nil
}

// InsertGrant stores a new grant; approval.ErrStale when the id is taken.
func (t approvalTx) InsertGrant(g approval.Grant) error {
	body, err := approval.EncodeGrant(g)
	if err != nil {
		return err
	}
	return changeOne(t.Exec(`INSERT INTO grants (id, version, principal, on_behalf_of, session, open, body)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING`,
		g.ID, g.Version, g.Principal.String(), g.OnBehalfOf.String(), g.Session, g.Open(), body))
}

// ReplaceGrant stores g in place of that version.
func (t approvalTx) ReplaceGrant(g approval.Grant, version int64) error {
	body, err := approval.EncodeGrant(g)
	if err != nil {
		return err
	}
	return changeOne(t.Exec("UPDATE grants SET version = ?1, open = ?2, body = ?3 WHERE id = ?4 AND version = ?5",
		g.Version, g.Open(), body, g.ID, version))
}

// SetFreeze stores the freeze row, or removes it with nil.
func (t approvalTx) SetFreeze(s *approval.FreezeState) error {
	if s == nil {
		_, err := t.Exec("DELETE FROM freeze")
		return err
	}
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the freeze: %w", err)
	}
	_, err = t.Exec("INSERT INTO freeze (id, body) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET body = excluded.body", body)
	return err
}

// changeOne turns a statement that found no row into approval.ErrStale.
func changeOne(changed int, err error) error {
	if err == nil && changed != 1 {
		return approval.ErrStale
	}
	return err
}
