package sqlite

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"palyra/internal/core/event"

	zs "zombiezen.com/go/sqlite"
)

// Conn is a connection inside a read transaction, which reads one snapshot.
type Conn struct {
	c *zs.Conn
	// broken is the first error that means that the storage itself failed.
	broken error
}

// Row is the current row of a query. Columns count from 0. The values that its
// methods return are copies and stay valid.
type Row struct{ s *zs.Stmt }

// Text returns a text column; NULL is "".
func (r *Row) Text(col int) string { return r.s.ColumnText(col) }

// Int64 returns an integer column; NULL is 0.
func (r *Row) Int64(col int) int64 { return r.s.ColumnInt64(col) }

// Int returns an integer column; NULL is 0.
func (r *Row) Int(col int) int { return r.s.ColumnInt(col) }

// Bool returns an integer column as a truth value; NULL is false.
func (r *Row) Bool(col int) bool { return r.s.ColumnInt64(col) != 0 }

// IsNull reports whether the column is NULL.
func (r *Row) IsNull(col int) bool { return r.s.ColumnType(col) == zs.TypeNull }

// Bytes returns a copy of a blob or text column; NULL is nil.
func (r *Row) Bytes(col int) []byte {
	if r.IsNull(col) {
		return nil
	}
	b := make([]byte, r.s.ColumnLen(col))
	r.s.ColumnBytes(col, b)
	return b
}

// Time returns a time that was bound as time.Time; NULL is the zero time.
func (r *Row) Time(col int) time.Time {
	if r.IsNull(col) {
		return time.Time{}
	}
	return time.UnixMicro(r.s.ColumnInt64(col)).UTC()
}

// Query runs one SQL statement and calls fn for every row. An error of fn ends the query and is
// returned. Arguments bind to ?1, ?2 and so on: text and named text types, []byte (nil is NULL),
// json.RawMessage as a blob, integers, bool as 0 or 1, float64, time.Time as microseconds since
// 1970 (the zero time is NULL) and nil.
func (c *Conn) Query(query string, fn func(*Row) error, args ...any) error {
	stmt, err := c.c.Prepare(query)
	if err != nil {
		return c.note(fmt.Errorf("preparing SQL: %w", err))
	}
	defer reset(stmt)
	for i, arg := range args {
		if err := bind(stmt, i+1, arg); err != nil {
			return err
		}
	}
	row := Row{s: stmt}
	for {
		more, err := stmt.Step()
		if err != nil {
			return c.note(err)
		}
		if !more {
			return nil
		}
		if fn == nil {
			continue
		}
		if err := fn(&row); err != nil {
			return err
		}
	}
}

// list reads rows in its own transaction; doing is the prefix of its errors.
func list[T any](ctx context.Context, db *DB, doing string, scan func(*Row) (T, error), query string, args ...any) (all []T, err error) {
	err = db.Read(ctx, func(c *Conn) error {
		return c.Query(query, func(r *Row) error {
			one, err := scan(r)
			all = append(all, one)
			return err
		}, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return all, nil
}

// QueryRow is Query for at most one row; found is false if the query returns no row.
func (c *Conn) QueryRow(query string, fn func(*Row) error, args ...any) (found bool, err error) {
	err = c.Query(query, func(r *Row) error {
		if found {
			return fmt.Errorf("more than one row for %q", query)
		}
		found = true
		return fn(r)
	}, args...)
	return found && err == nil, err
}

// note records the first storage error, so that a check that ignores the error cannot commit.
func (c *Conn) note(err error) error {
	err = withFiles(err)
	if c.broken == nil && isStorageError(err) {
		c.broken = err
	}
	return err
}

// Tx is the writer's transaction inside one unit.
type Tx struct {
	Conn
	now     time.Time
	drafts  []event.Draft
	changed bool
	// bound is the number of bytes of text and blobs bound to statements.
	bound int64
	// joined is the number of calls that were added to their session.
	joined int
}

// Now returns the time of the batch, in UTC with microseconds. It is never before the last
// event.
func (tx *Tx) Now() time.Time { return tx.now }

// Emit adds events to the unit. They are appended if the check passes.
func (tx *Tx) Emit(drafts ...event.Draft) { tx.drafts = append(tx.drafts, drafts...) }

// Exec runs one SQL statement and returns the number of changed rows. Arguments bind as for Query.
func (tx *Tx) Exec(query string, args ...any) (changed int, err error) {
	tx.changed = true
	tx.bound += sizeOfArgs(args)
	if err := tx.Query(query, nil, args...); err != nil {
		return 0, err
	}
	return tx.c.Changes(), nil
}

func reset(stmt *zs.Stmt) {
	// Reset returns the error of the last Step again, which was already returned.
	_ = stmt.Reset()
	_ = stmt.ClearBindings()
}

func bind(stmt *zs.Stmt, i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		stmt.BindNull(i)
	case string:
		stmt.BindText(i, v)
	case []byte:
		bindBytes(stmt, i, v)
	case int:
		stmt.BindInt64(i, int64(v))
	case int64:
		stmt.BindInt64(i, v)
	case bool:
		stmt.BindBool(i, v)
	case float64:
		stmt.BindFloat(i, v)
	case time.Time:
		bindTime(stmt, i, v)
	default:
		return bindKind(stmt, i, reflect.ValueOf(arg))
	}
	return nil
}

func bindKind(stmt *zs.Stmt, i int, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.String:
		stmt.BindText(i, v.String())
	case v.CanInt():
		stmt.BindInt64(i, v.Int())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		bindBytes(stmt, i, v.Bytes())
	case v.Kind() == reflect.Bool:
		stmt.BindBool(i, v.Bool())
	default:
		return fmt.Errorf("SQL argument %d: a %s cannot be bound", i, v.Type())
	}
	return nil
}

func bindBytes(stmt *zs.Stmt, i int, b []byte) {
	switch {
	case b == nil:
		stmt.BindNull(i)
	case len(b) == 0:
		stmt.BindZeroBlob(i, 0)
	default:
		stmt.BindBytes(i, b)
	}
}

func bindTime(stmt *zs.Stmt, i int, t time.Time) {
	if t.IsZero() {
		stmt.BindNull(i)
		return
	}
	stmt.BindInt64(i, t.UnixMicro())
}
