package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// Approvals is the approval.Store of the embedded store.
type Approvals struct{ db *DB }

var _ approval.Store = (*Approvals)(nil)

// NewApprovals returns the approvals in db.
func NewApprovals(db *DB) *Approvals { return &Approvals{db: db} }

// Update runs fn as one unit of the writer.
func (a *Approvals) Update(ctx context.Context, fn func(approval.Tx) error) error {
	// If the key is locked, only the insertion of a new record fails.
	_ = a.db.keys.Ready(ctx)
	_, err := a.db.Commit(ctx, Unit{Check: func(tx *Tx) error { return fn(approvalTx{tx, a.db}) }})
	return err
}

// Record returns one record, or approval.ErrNotFound.
func (a *Approvals) Record(ctx context.Context, id string) (rec approval.Record, err error) {
	var s storedApproval
	err = a.db.Read(ctx, func(c *Conn) error {
		s, err = approvalRows{c}.one(id)
		return err
	})
	if err != nil {
		return rec, err
	}
	return s.record(a.opener(ctx))
}

// Grant returns one grant, or approval.ErrNotFound.
func (a *Approvals) Grant(ctx context.Context, id string) (g approval.Grant, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		g, err = approvalRows{c}.grant(id)
		return err
	})
	return g, err
}

// Records returns one page of records, newest first.
func (a *Approvals) Records(ctx context.Context, f approval.Filter) (page []approval.Record, next string, err error) {
	var rows []storedApproval
	err = a.db.Read(ctx, func(c *Conn) error {
		rows, next, err = approvalRows{c}.page(f)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	page, err = a.records(ctx, rows)
	return page, next, err
}

// Grants returns one page of grants, newest first.
func (a *Approvals) Grants(ctx context.Context, f approval.GrantFilter) (page []approval.Grant, next string, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		page, next, err = approvalRows{c}.grants(f)
		return err
	})
	return page, next, err
}

// Changes returns at most limit records with a higher revision than after, by revision.
func (a *Approvals) Changes(ctx context.Context, after int64, limit int) (list []approval.Record, err error) {
	var rows []storedApproval
	err = a.db.Read(ctx, func(c *Conn) error {
		rows, err = approvalRows{c}.list("SELECT "+approvalColumns+", NULL FROM approvals WHERE revision > ?1 ORDER BY revision LIMIT ?2", after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.records(ctx, rows)
}

// LastRevision returns the highest revision, or 0 if the table is empty.
func (a *Approvals) LastRevision(ctx context.Context) (revision int64, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		revision, err = approvalRows{c}.revision()
		return err
	})
	return revision, err
}

// Freeze returns the freeze row, or nil if the gateway is not frozen.
func (a *Approvals) Freeze(ctx context.Context) (s *approval.FreezeState, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		s, err = approvalRows{c}.freeze()
		return err
	})
	return s, err
}

// LastAllowed returns the binding of the most recently approved record of the principal and tool.
func (a *Approvals) LastAllowed(ctx context.Context, p access.Principal, name string) (b tool.Binding, found bool, err error) {
	const query = "SELECT " + approvalColumns + `, NULL FROM approvals
		WHERE state IN ('allowed', 'consumed') AND requested_by = ?1 AND tool = ?2
		ORDER BY answered_at DESC LIMIT 1`
	var rows []storedApproval
	err = a.db.Read(ctx, func(c *Conn) error {
		rows, err = approvalRows{c}.list(query, p.String(), name)
		return err
	})
	if err != nil || len(rows) == 0 {
		return tool.Binding{}, false, err
	}
	rec, err := rows[0].record(a.opener(ctx))
	if err != nil || rec.Withheld != nil {
		return tool.Binding{}, false, err
	}
	return rec.Binding, true, nil
}

func (a *Approvals) records(ctx context.Context, rows []storedApproval) (list []approval.Record, err error) {
	open := a.opener(ctx)
	for i := range rows {
		rec, err := rows[i].record(open)
		if err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	return list, nil
}

// approvalRows reads the rows of approvals, grants and the freeze.
type approvalRows struct{ *Conn }

func (a approvalRows) list(query string, args ...any) (rows []storedApproval, err error) {
	err = a.Query(query, func(r *Row) error { rows = append(rows, scanApproval(r)); return nil }, args...)
	return rows, err
}

func (a approvalRows) one(id string) (s storedApproval, err error) {
	rows, err := a.list("SELECT "+approvalColumns+", request FROM approvals WHERE id = ?1", id)
	if err == nil && len(rows) == 0 {
		return s, approval.ErrNotFound
	}
	if err != nil {
		return s, err
	}
	return rows[0], nil
}

func (a approvalRows) grant(id string) (g approval.Grant, err error) {
	found, err := a.QueryRow("SELECT body FROM grants WHERE id = ?1", func(r *Row) error {
		g, err = approval.DecodeGrant(r.Bytes(0))
		return err
	}, id)
	if err == nil && !found {
		err = approval.ErrNotFound
	}
	return g, err
}

func (a approvalRows) revision() (revision int64, err error) {
	_, err = a.QueryRow("SELECT max(revision) FROM approvals", func(r *Row) error { revision = r.Int64(0); return nil })
	return revision, err
}

func (a approvalRows) freeze() (*approval.FreezeState, error) {
	var s approval.FreezeState
	found, err := a.QueryRow("SELECT body FROM freeze WHERE id = 1", func(r *Row) error {
		return json.Unmarshal(r.Bytes(0), &s)
	})
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

// page reads one row more than a page to detect whether a next page exists.
func (a approvalRows) page(f approval.Filter) (page []storedApproval, next string, err error) {
	size := approval.PageSize(f.PageSize)
	where := chosenApprovals(f)
	where.ascending = f.Ascending
	if f.PageToken != "" {
		beyond := "id < ?"
		if f.Ascending {
			beyond = "id > ?"
		}
		where.add(beyond, f.PageToken)
	}
	page, err = a.list("SELECT "+approvalColumns+", NULL FROM approvals INDEXED BY "+approvalsIndex(f)+where.sql(size+1), where.args...)
	if len(page) > size {
		page = page[:size]
		next = page[size-1].id
	}
	return page, next, err
}

// approvalsIndex returns the index along which a filter is applied. Both indexes cover every column
// that the filter uses, so only the matching rows are read: they may be large.
func approvalsIndex(f approval.Filter) string {
	if len(f.States) == 1 {
		return "approvals_of_state"
	}
	return "approvals_chosen"
}

func chosenApprovals(f approval.Filter) *whereClause {
	where := &whereClause{}
	whereIn(where, "state", f.States)
	whereIn(where, "subject_type", f.SubjectTypes)
	whereIn(where, "severity", f.Severities)
	whereIn(where, "tool", comparedAs(f.Tools))
	if names := principalNames(f.Principals); len(names) > 0 {
		asked := &whereClause{}
		whereIn(asked, "requested_by", names)
		whereIn(asked, "on_behalf_of", names)
		where.add("("+strings.Join(asked.conditions, " OR ")+")", asked.args...)
	}
	whereNotIn(where, "state", f.Except.States)
	whereNotIn(where, "subject_type", f.Except.SubjectTypes)
	whereNotIn(where, "severity", f.Except.Severities)
	whereNotIn(where, "tool", comparedAs(f.Except.Tools))
	names := principalNames(f.Except.Principals)
	whereNotIn(where, "requested_by", names)
	whereNotIn(where, "on_behalf_of", names)
	if !f.Since.IsZero() {
		where.add("created_at >= ?", f.Since)
	}
	if !f.Until.IsZero() {
		where.add("created_at < ?", f.Until)
	}
	return where
}

func principalNames(list []access.Principal) []string {
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.String()
	}
	return names
}

// comparedAs returns the values of the column tool for tools (approval.Record.ComparedAs).
func comparedAs(tools []string) []string {
	var names []string
	for _, name := range tools {
		names = append(names, name)
		for _, about := range approval.ComparedPrefixes {
			names = append(names, about+name)
		}
	}
	return names
}

// Tallied counts the records that a filter chooses.
func (a *Approvals) Tallied(ctx context.Context, f approval.Filter) (t approval.Tallies, err error) {
	where := chosenApprovals(f)
	err = a.db.Read(ctx, func(c *Conn) error {
		return c.Query("SELECT state, severity, subject_type, tool, count(*) FROM approvals INDEXED BY "+approvalsIndex(f)+where.text()+" GROUP BY 1, 2, 3, 4", func(r *Row) error {
			name := r.Text(3)
			for _, about := range approval.ComparedPrefixes {
				name = strings.TrimPrefix(name, about)
			}
			t.Add(approval.State(r.Text(0)), r.Text(1), approval.SubjectType(r.Text(2)), name, r.Int64(4))
			return nil
		}, where.args...)
	})
	return t, err
}

// Lately counts recent approvals and recent calls that ran without one.
func (a *Approvals) Lately(ctx context.Context, q approval.LatelyQuery) (n approval.Lately, err error) {
	err = a.db.Read(ctx, func(c *Conn) error {
		rows := approvalRows{c}
		if n.Asked, err = rows.lately(q, "approvals INDEXED BY approvals_lately", "created_at"); err != nil {
			return err
		}
		n.Unasked, err = rows.lately(q, "unasked_calls", "at")
		return err
	})
	return n, err
}

// lately counts the rows of a table that a grant would match.
func (a approvalRows) lately(q approval.LatelyQuery, table, at string) (n approval.Counted, err error) {
	query := `SELECT count(*), coalesce(sum(subject = ?5), 0), coalesce(sum(call_digest = ?6), 0),
		coalesce(sum(session = ?7), 0), coalesce(sum(session = ?7 AND subject = ?5), 0), coalesce(sum(session = ?7 AND call_digest = ?6), 0)
		FROM (SELECT subject, call_digest, session FROM ` + table + `
			WHERE requested_by = ?1 AND on_behalf_of = ?2 AND tool = ?3 AND ` + at + ` >= ?4 ORDER BY ` + at + ` DESC LIMIT ?8)`
	_, err = a.QueryRow(query, func(r *Row) error {
		n.All = approval.Matching{Tool: r.Int64(0), Subject: r.Int64(1), Exact: r.Int64(2)}
		n.InSession = approval.Matching{Tool: r.Int64(3), Subject: r.Int64(4), Exact: r.Int64(5)}
		return nil
	}, q.RequestedBy.String(), q.OnBehalfOf.String(), q.ComparedAs, q.Since, q.Subject, q.CallDigest, q.Session, approval.MostLately)
	return n, err
}

func (a approvalRows) grants(f approval.GrantFilter) (page []approval.Grant, next string, err error) {
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
	err = a.Query("SELECT body FROM grants"+where.sql(size+1), func(r *Row) error {
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

// approvalTx is the transaction of one unit for package approval. Emit is inherited from the
// writer's transaction.
type approvalTx struct {
	*Tx
	db *DB
}

// Record returns the record, including changes of this unit.
func (t approvalTx) Record(id string) (approval.Record, error) {
	s, err := approvalRows{&t.Conn}.one(id)
	if err != nil {
		return approval.Record{}, err
	}
	return s.record(t.db.keys.OpenKnown)
}

// Grant returns the grant, including changes of this unit.
func (t approvalTx) Grant(id string) (approval.Grant, error) { return approvalRows{&t.Conn}.grant(id) }

// Freeze returns the freeze row, including changes of this unit.
func (t approvalTx) Freeze() (*approval.FreezeState, error) { return approvalRows{&t.Conn}.freeze() }

// form returns the stored form of r. The text displayed to people is sealed and stored apart from
// the rest.
func (t approvalTx) form(r *approval.Record) (func(approval.Record) ([]byte, error), sealedApproval, error) {
	if !r.Sealed() {
		return approval.EncodeRecord, sealedApproval{}, nil
	}
	sealed, err := sealApproval(t.db.keys, r)
	return approval.EncodeOutline, sealed, err
}

// InsertRecord stores a new record. It returns approval.ErrStale when the id is taken, and
// reason.VaultLocked when the displayed text cannot be sealed.
func (t approvalTx) InsertRecord(r *approval.Record) error {
	encode, sealed, err := t.form(r)
	if err != nil {
		return err
	}
	return t.numbered(r, encode, func(revision int64, body []byte) (int, error) {
		return t.Exec(`INSERT INTO approvals
		(revision, state, version, answered_at, body, request, payload, payload_digest, payload_key,
		 subject_type, requested_by, on_behalf_of, tool, created_at, id, severity, session, subject, call_digest)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) ON CONFLICT (id) DO NOTHING`,
			revision, r.State, r.Version, r.AnsweredAt, body, sealed.requestOr(r.Request), sealed.payload, sealed.digest, sealed.key,
			r.SubjectType, r.RequestedBy.String(), r.OnBehalfOf.String(), r.ComparedAs(), r.CreatedAt, r.ID, r.Severity, r.Session, r.Subject, r.CallDigest)
	})
}

// ReplaceRecord replaces the record that has the given state and version with r. The sealed part
// never changes, except that the request is removed when r is closed: no key is needed.
func (t approvalTx) ReplaceRecord(r *approval.Record, state approval.State, version int64) error {
	found, err := t.QueryRow("SELECT 1 FROM approvals WHERE id = ?1 AND payload_key <> ''", func(*Row) error { return nil }, r.ID)
	if err != nil {
		return err
	}
	encode, request := approval.EncodeRecord, "?6"
	if found {
		encode, request = approval.EncodeOutline, "CASE WHEN ?7 THEN NULL ELSE request END"
	}
	return t.numbered(r, encode, func(revision int64, body []byte) (int, error) {
		return t.Exec(`UPDATE approvals
		SET revision = ?1, state = ?2, version = ?3, answered_at = ?4, body = ?5, request = `+request+`
		WHERE id = ?8 AND state = ?9 AND version = ?10`,
			revision, r.State, r.Version, r.AnsweredAt, body, []byte(r.Request), r.State.Terminal(), r.ID, state, version)
	})
}

// RewriteRecord is ReplaceRecord for all of r, including its sealed part.
func (t approvalTx) RewriteRecord(r *approval.Record, state approval.State, version int64) error {
	encode, sealed, err := t.form(r)
	if err != nil {
		return err
	}
	return t.numbered(r, encode, func(revision int64, body []byte) (int, error) {
		return t.Exec(`UPDATE approvals
		SET revision = ?1, state = ?2, version = ?3, answered_at = ?4, body = ?5, request = ?6, payload = ?7, payload_digest = ?8, payload_key = ?9,
			severity = ?10, session = ?11, subject = ?12, call_digest = ?13, tool = ?14
		WHERE id = ?15 AND state = ?16 AND version = ?17`,
			revision, r.State, r.Version, r.AnsweredAt, body, sealed.requestOr(r.Request), sealed.payload, sealed.digest, sealed.key,
			r.Severity, r.Session, r.Subject, r.CallDigest, r.ComparedAs(), r.ID, state, version)
	})
}

// numbered assigns the next revision to r, and stores r with write.
func (t approvalTx) numbered(r *approval.Record, encode func(approval.Record) ([]byte, error), write func(revision int64, body []byte) (int, error)) error {
	revision, err := approvalRows{&t.Conn}.revision()
	if err != nil {
		return err
	}
	stored := *r
	stored.Revision = revision + 1
	body, err := encode(stored)
	if err != nil {
		return err
	}
	if err := changeOne(write(stored.Revision, body)); err != nil {
		return err
	}
	r.Revision = stored.Revision
	return nil
}

// InsertGrant stores a new grant. It returns approval.ErrStale when the id is taken.
func (t approvalTx) InsertGrant(g approval.Grant) error {
	body, err := approval.EncodeGrant(g)
	if err != nil {
		return err
	}
	return changeOne(t.Exec(`INSERT INTO grants (id, version, principal, on_behalf_of, session, open, body)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING`,
		g.ID, g.Version, g.Principal.String(), g.OnBehalfOf.String(), g.Session, g.Open(), body))
}

// ReplaceGrant replaces the grant that has the given version with g.
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

// changeOne returns approval.ErrStale for a statement that changed no row.
func changeOne(changed int, err error) error {
	if err == nil && changed != 1 {
		return approval.ErrStale
	}
	return err
}
