package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
	"palyra/internal/run"
)

// Runs is the run.Store of the embedded store.
type Runs struct{ db *DB }

var _ run.Store = (*Runs)(nil)

// NewRuns returns the runs in db.
func NewRuns(db *DB) *Runs { return &Runs{db: db} }

// Head returns the newest durable head of the journal.
func (s *Runs) Head() journal.Head { return s.db.Head() }

// Recent returns the events after a sequence number from memory.
func (s *Runs) Recent(after int64) ([]journal.Event, bool) { return s.db.Recent(after) }

// Events returns a page of the events that match the filter.
func (s *Runs) Events(ctx context.Context, f journal.Filter) ([]journal.Event, error) {
	return s.db.Events(ctx, f)
}

// Blob returns the data with a digest.
func (s *Runs) Blob(ctx context.Context, digest string) ([]byte, error) {
	return s.db.Blob(ctx, digest)
}

// Append makes events durable, together with the blobs that they name.
func (s *Runs) Append(ctx context.Context, w run.Write) error {
	blobs, err := s.db.sealBlobs(ctx, w.Blobs)
	if err == nil {
		_, err = s.db.Commit(ctx, Unit{Events: w.Drafts, Check: func(tx *Tx) error { return tx.putBlobs(blobs) }})
	}
	return err
}

// errKnownStart rolls back the unit of a start that is already recorded.
var errKnownStart = errors.New("the run was started before")

// Begin stores a new run, or finds the run with the same idempotency key.
func (s *Runs) Begin(ctx context.Context, b run.Beginning) (r run.Record, fresh bool, err error) {
	// A run does not start if its turns cannot be stored.
	if err := s.db.keys.Ready(ctx); err != nil {
		return r, false, err
	}
	blobs, err := s.db.sealBlobs(ctx, b.Write.Blobs)
	if err != nil {
		return r, false, err
	}
	_, err = s.db.Commit(ctx, Unit{Events: b.Write.Drafts, Check: func(tx *Tx) error {
		if b.Key != "" {
			known, found, err := tx.startedRun(b, tx.Now())
			switch {
			case err != nil:
				return err
			case found:
				r = known
				return errKnownStart
			}
			if err := tx.forgetStart(b); err != nil {
				return err
			}
		}
		r = b.Record
		r.StartedAt = tx.Now()
		if err := tx.insertRun(r, b); err != nil {
			return fmt.Errorf("storing a run: %w", err)
		}
		return tx.putBlobs(blobs)
	}})
	if errors.Is(err, errKnownStart) {
		return r, false, nil
	}
	return r, err == nil, err
}

// Started finds the run with an idempotency key.
func (s *Runs) Started(ctx context.Context, b run.Beginning) (r run.Record, found bool, err error) {
	if b.Key == "" {
		return r, false, nil
	}
	err = s.db.Read(ctx, func(c *Conn) error {
		r, found, err = c.startedRun(b, s.db.writer.now())
		return err
	})
	return r, found, err
}

// startedRun returns the run of an idempotency key that has not expired.
func (c *Conn) startedRun(b run.Beginning, now time.Time) (known run.Record, found bool, err error) {
	digest := ""
	found, err = c.QueryRow("SELECT "+runColumns+", start_digest FROM runs WHERE principal = ?1 AND idempotency_key = ?2 AND started_at >= ?3",
		func(r *Row) error {
			known, err = scanRun(r)
			digest = r.Text(runColumnCount)
			return err
		}, b.Record.Principal.String(), b.Key, now.Add(-call.ClaimLife))
	if err == nil && found && digest != b.Digest {
		return run.Record{}, false, reason.Errorf(reason.IdempotencyMismatch, "idempotency key %q belongs to a run with another task or other settings", b.Key)
	}
	return known, found, err
}

// forgetStart frees an expired idempotency key.
func (tx *Tx) forgetStart(b run.Beginning) error {
	_, err := tx.Exec("UPDATE runs SET idempotency_key = NULL WHERE principal = ?1 AND idempotency_key = ?2 AND started_at < ?3",
		b.Record.Principal.String(), b.Key, tx.Now().Add(-call.ClaimLife))
	if err != nil {
		return fmt.Errorf("forgetting an old idempotency key: %w", err)
	}
	return nil
}

func (tx *Tx) insertRun(r run.Record, b run.Beginning) error {
	var key any
	if b.Key != "" {
		key = b.Key
	}
	_, err := tx.Exec(`INSERT INTO runs (`+runColumns+`, idempotency_key, start_digest) VALUES
 (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)`,
		r.ID, r.State, r.Principal.String(), r.OnBehalfOf.String(), r.Session, r.Device, r.StartedAt, r.EndedAt,
		r.Model, r.Workspace, r.Interactive, r.Budget.Calls, r.Budget.Tokens, r.Budget.WallClock.Microseconds(),
		r.Usage.Calls, r.Usage.Turns, r.Usage.InputTokens, r.Usage.OutputTokens,
		r.CancelledBy.String(), r.Reason, r.Detail, r.Remedy, r.Message, key, b.Digest)
	return err
}

// End stores the end of a run.
func (s *Runs) End(ctx context.Context, r run.Record, w run.Write) (run.Record, error) {
	blobs, err := s.db.sealBlobs(ctx, w.Blobs)
	if err != nil {
		return r, err
	}
	_, err = s.db.Commit(ctx, Unit{Events: w.Drafts, Check: func(tx *Tx) error {
		r.EndedAt = tx.Now()
		changed, err := tx.Exec(`UPDATE runs SET state = ?1, ended_at = ?2, calls = ?3, turns = ?4, input_tokens = ?5,
 output_tokens = ?6, cancelled_by = ?7, reason = ?8, detail = ?9, remedy = ?10 WHERE id = ?11 AND state = ?12`,
			r.State, r.EndedAt, r.Usage.Calls, r.Usage.Turns, r.Usage.InputTokens,
			r.Usage.OutputTokens, r.CancelledBy.String(), r.Reason, r.Detail, r.Remedy, r.ID, run.Running)
		if err != nil {
			return fmt.Errorf("storing the end of a run: %w", err)
		}
		if changed == 0 {
			if _, err := tx.run(r.ID); err != nil {
				return err
			}
			return reason.Errorf(reason.RunEnded, "run %s has ended already", r.ID)
		}
		return tx.putBlobs(blobs)
	}})
	return r, err
}

// Get returns a run, or reason.NotFound.
func (s *Runs) Get(ctx context.Context, id string) (r run.Record, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		r, err = c.run(id)
		return err
	})
	return r, err
}

func (c *Conn) run(id string) (record run.Record, err error) {
	found, err := c.QueryRow("SELECT "+runColumns+" FROM runs WHERE id = ?1", func(r *Row) error {
		record, err = scanRun(r)
		return err
	}, id)
	if err == nil && !found {
		err = reason.Errorf(reason.NotFound, "run %s not found", id).WithRemedy("List the runs with `palyra runs list`.")
	}
	return record, err
}

// List returns one page of runs, newest first.
func (s *Runs) List(ctx context.Context, f run.Filter) (page []run.Record, next string, err error) {
	err = s.db.Read(ctx, func(c *Conn) error {
		page, next, err = c.runs(f)
		return err
	})
	return page, next, err
}

func (c *Conn) runs(f run.Filter) (page []run.Record, next string, err error) {
	size := run.PageSize(f.PageSize)
	query, args := runsQuery(f, size)
	err = c.Query(query, func(r *Row) error {
		record, err := scanRun(r)
		page = append(page, record)
		return err
	}, args...)
	if len(page) > size {
		page = page[:size]
		next = page[size-1].ID
	}
	return page, next, err
}

// runsQuery reads one row more than a page to detect whether a next page exists.
func runsQuery(f run.Filter, size int) (query string, args []any) {
	where := whereClause{order: "n"}
	whereIn(&where, "state", f.States)
	whereRunsOf(&where, f.Principal)
	whereRunsOf(&where, f.Of)
	if f.Session != "" {
		where.add("session = ?", f.Session)
	}
	if !f.Since.IsZero() {
		where.add("n >= "+firstRunAt, f.Since)
	}
	if !f.Until.IsZero() {
		where.add("n < "+firstRunAt, f.Until)
	}
	if f.PageToken != "" {
		where.add("n < (SELECT n FROM runs WHERE id = ?)", f.PageToken)
	}
	return "SELECT " + runColumns + " FROM runs" + where.sql(size+1), where.args
}

// firstRunAt selects the first run that started at or after a time, or one past the end.
const firstRunAt = `coalesce((SELECT n FROM runs WHERE started_at >= ? ORDER BY started_at, n LIMIT 1), 9223372036854775807)`

// whereRunsOf selects the runs of a principal. Runs of a user are selected by on_behalf_of,
// because a user acts on behalf of itself.
func whereRunsOf(where *whereClause, p access.Principal) {
	switch {
	case p.Kind == access.KindUser:
		where.add("on_behalf_of = ?", p.String())
	case !p.IsZero():
		where.add("principal = ?", p.String())
	}
}

const runColumns = `id, state, principal, on_behalf_of, session, device, started_at, ended_at,
 model, workspace, interactive, budget_calls, budget_tokens, budget_time,
 calls, turns, input_tokens, output_tokens, cancelled_by, reason, detail, remedy, message`

const runColumnCount = 23

// scanRun reads a row of runColumns.
func scanRun(r *Row) (run.Record, error) {
	record := run.Record{
		ID: r.Text(0), State: run.State(r.Text(1)), Session: r.Text(4), Device: r.Text(5), StartedAt: r.Time(6), EndedAt: r.Time(7),
		Model: r.Text(8), Workspace: r.Text(9), Interactive: r.Bool(10),
		Budget: run.Budget{Calls: r.Int(11), Tokens: r.Int64(12), WallClock: time.Duration(r.Int64(13)) * time.Microsecond},
		Usage:  run.Usage{Calls: r.Int(14), Turns: r.Int(15), InputTokens: r.Int64(16), OutputTokens: r.Int64(17)},
		Reason: reason.Code(r.Text(19)), Detail: r.Text(20), Remedy: r.Text(21), Message: r.Text(22),
	}
	for col, p := range map[int]*access.Principal{2: &record.Principal, 3: &record.OnBehalfOf, 18: &record.CancelledBy} {
		if err := p.UnmarshalText([]byte(r.Text(col))); err != nil {
			return record, fmt.Errorf("reading run %s: %w", record.ID, err)
		}
	}
	return record, nil
}
