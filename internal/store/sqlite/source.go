package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Head returns the newest durable head.
func (db *DB) Head() journal.Head { return db.log.Head() }

// Wait returns when the head is past a sequence number.
func (db *DB) Wait(ctx context.Context, after int64) error { return db.log.Wait(ctx, after) }

// Recent returns the events after a sequence number from memory, or false if not all of them are in
// memory.
func (db *DB) Recent(after int64) ([]journal.Event, bool) { return db.log.Recent(after) }

// Append commits events without a check.
func (db *DB) Append(ctx context.Context, drafts ...event.Draft) ([]journal.Event, error) {
	return db.Commit(ctx, Unit{Events: drafts})
}

// Events returns a page of the events that match the filter.
func (db *DB) Events(ctx context.Context, f journal.Filter) (events []journal.Event, err error) {
	err = db.Read(ctx, func(c *Conn) error {
		events, err = eventRows{c}.page(f)
		return err
	})
	return events, err
}

// Tree calls fn with the Merkle tree over the first size events.
func (db *DB) Tree(ctx context.Context, size int64, fn func(*journal.Tree) error) error {
	return db.Read(ctx, func(c *Conn) error { return fn(journal.NewTree(size, connTiles{c})) })
}

// eventRows reads the rows of events and their places.
type eventRows struct{ *Conn }

// page returns a page of the events that match the filter, within the connection's transaction.
func (rows eventRows) page(f journal.Filter) ([]journal.Event, error) {
	if byPlaces(f) {
		return rows.placed(f)
	}
	return rows.read(f)
}

// read finds the events by the indexes of the table events, or reads all events within the
// bounds.
func (rows eventRows) read(f journal.Filter) ([]journal.Event, error) {
	query, args, err := rows.eventQuery(f)
	if err != nil {
		return nil, err
	}
	var events []journal.Event
	err = rows.Query(query, func(r *Row) error {
		e, err := scanEvent(r)
		events = append(events, e)
		return err
	}, args...)
	return events, err
}

func (rows eventRows) eventQuery(f journal.Filter) (query string, args []any, err error) {
	terms, args, err := rows.eventFilter(f)
	if err != nil {
		return "", nil, err
	}
	ways := []whereClause{{conditions: terms}}
	if f.Run != "" {
		args, ways = append(args, f.Run), nil
		for _, way := range ofRun("", fmt.Sprintf("?%d", len(args))) {
			ways = append(ways, whereClause{conditions: append(slices.Clip(terms), way)})
		}
	}
	selects := make([]string, len(ways))
	for i, where := range ways {
		selects[i] = "SELECT " + eventColumns + " FROM events" + where.text()
	}
	order := "ASC"
	if f.Newest {
		order = "DESC"
	}
	limit := f.Limit
	if limit <= 0 {
		limit = journal.DefaultLimit
	}
	return fmt.Sprintf("%s ORDER BY seq %s LIMIT ?%d", strings.Join(selects, " UNION ALL "), order, len(args)+1), append(args, limit), nil
}

// ofRun returns two conditions that together select the events of a run: one uses the index of
// runs, the other the index of subjects. The latter is for a call whose run is the call itself.
// No event meets both. The table name in the query ends with a dot.
func ofRun(table, run string) []string {
	names := strings.NewReplacer("@", table, "?", run)
	return []string{
		names.Replace("@run = ? AND @run <> '' AND @run <> @subject"),
		names.Replace("@subject = ? AND @subject <> '' AND @run = @subject"),
	}
}

// inSession finds the events of a session through its runs. Events without a run have a separate
// index.
var inSession = `seq IN (
 SELECT seq FROM events WHERE session = ? AND session <> '' AND run = ''` + eachWay(ofRun("e.", "s.run"), `
 UNION ALL SELECT e.seq FROM session_runs s CROSS JOIN events e ON %s WHERE s.session = ? AND e.session = ?`) + ")"

// eachWay joins copies of a part of a query, one for each of several conditions.
func eachWay(conditions []string, part string) (all string) {
	for _, condition := range conditions {
		all += strings.Replace(part, "%s", condition, 1)
	}
	return all
}

// indexed lists the codes that have a partial index: checkpoints, and events that each start
// searches for among the events of the last days.
var indexed = []event.Code{event.Checkpoint, event.Thawed, event.PolicyReset, event.GatewayChange, event.Restored}

// eventFilter returns the conditions of a filter except the one on the run. The indexes omit empty
// values, so every term on such a column states that it is not empty.
func (rows eventRows) eventFilter(f journal.Filter) (terms []string, args []any, err error) {
	term := func(format string, arg any) {
		args = append(args, arg)
		terms = append(terms, strings.ReplaceAll(format, "?", fmt.Sprintf("?%d", len(args))))
	}
	if f.Session != "" {
		term(inSession, f.Session)
	}
	if f.Subject != "" {
		term("subject = ? AND subject <> ''", f.Subject)
	}
	if f.Actor != "" {
		term("actor = ?", f.Actor)
	}
	switch {
	case slices.Contains(indexed, event.Code(f.Code)):
		terms = append(terms, "code = '"+f.Code+"'") // a literal, so that the partial index applies
	case f.Code != "":
		term("code >= ?", f.Code)
		term("code < ?", f.Code+"\U0010FFFF")
	}
	after, upTo, err := rows.seqBounds(f)
	if err != nil {
		return nil, nil, err
	}
	if after > 0 {
		term("seq > ?", after)
	}
	if upTo >= 0 {
		term("seq <= ?", upTo)
	}
	return terms, args, nil
}

// seqBounds converts time bounds to sequence numbers. Time never decreases along the chain, so a
// binary search by row id needs no index. upTo is -1 without an upper bound.
func (rows eventRows) seqBounds(f journal.Filter) (after, upTo int64, err error) {
	after, upTo = f.After, -1
	if f.UpTo > 0 {
		upTo = f.UpTo
	}
	if !f.Since.IsZero() {
		first, err := rows.firstAt(f.Since)
		if err != nil {
			return 0, 0, err
		}
		after = max(after, first-1)
	}
	if !f.Until.IsZero() {
		first, err := rows.firstAt(f.Until)
		if err != nil {
			return 0, 0, err
		}
		if upTo < 0 || first-1 < upTo {
			upTo = first - 1
		}
	}
	return after, upTo, nil
}

// firstAt returns the first sequence number whose time is not before t, or one past the end.
func (rows eventRows) firstAt(t time.Time) (int64, error) {
	head, err := readHead(rows.Conn)
	if err != nil {
		return 0, err
	}
	var failed error
	n := sort.Search(int(head.Seq), func(i int) bool {
		var at time.Time
		found, err := rows.QueryRow("SELECT at FROM events WHERE seq = ?1", func(r *Row) error { at = r.Time(0); return nil }, i+1)
		if err == nil && !found {
			err = &journal.CorruptError{Seq: int64(i + 1), What: "the event is missing"}
		}
		if err != nil {
			failed = err
		}
		return !at.Before(t)
	})
	return int64(n) + 1, failed
}

// connTiles reads the Merkle tree's tables.
type connTiles struct{ c *Conn }

// Tile implements journal.Tiles.
func (t connTiles) Tile(level int, n int64) (hashes []byte, err error) {
	found, err := t.c.QueryRow("SELECT hashes FROM tiles WHERE level = ?1 AND n = ?2",
		func(r *Row) error { hashes = r.Bytes(0); return nil }, level, n)
	if err == nil && !found {
		return nil, nil // the tree reports where it is short
	}
	return hashes, damagedFrom(firstUnder(level, n), err)
}

// firstUnder returns the sequence number of the first event under a tile.
func firstUnder(level int, n int64) int64 {
	for range level + 1 {
		n *= journal.TileWidth
	}
	return n + 1
}

// TileRoots implements journal.Tiles.
func (t connTiles) TileRoots(level int, from, to int64) ([][32]byte, error) {
	roots, err := t.hashes("SELECT root, n FROM tiles WHERE level = ?3 AND n >= ?1 AND n < ?2 ORDER BY n", from, to, level)
	return roots, damagedFrom(firstUnder(level, from), err)
}

// EventHashes implements journal.Tiles.
func (t connTiles) EventHashes(from, to int64) ([][32]byte, error) {
	hashes, err := t.hashes("SELECT hash, seq FROM events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq", from, to)
	return hashes, damagedFrom(from+1, err)
}

func (t connTiles) hashes(query string, args ...any) (hashes [][32]byte, err error) {
	err = t.c.Query(query, func(r *Row) error {
		var h [32]byte
		if err := r.hash(0, r.Int64(1), &h); err != nil {
			return err
		}
		hashes = append(hashes, h)
		return nil
	}, args...)
	return hashes, err
}

const eventColumns = `seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload`

const eventColumnCount = 13

const scanEvents = "SELECT " + eventColumns + " FROM events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq"

// scanEvent reads a row of eventColumns into a new event.
func scanEvent(r *Row) (journal.Event, error) {
	s := eventScanner{}
	err := s.read(r)
	return s.event, err
}

// Scan calls fn with the events after..upTo, oldest first, within one
// snapshot. The event and its payload are valid only during the call.
func (db *DB) Scan(ctx context.Context, after, upTo int64, fn func(*journal.Event) error) error {
	return db.Read(ctx, func(c *Conn) error { return eventRows{c}.scan(after, upTo, fn) })
}

func (rows eventRows) scan(after, upTo int64, fn func(*journal.Event) error) error {
	s := eventScanner{}
	last := after
	err := rows.Query(scanEvents, func(r *Row) error {
		if err := s.read(r); err != nil {
			return err
		}
		last = s.event.Seq
		return fn(&s.event)
	}, after, upTo)
	return damagedFrom(last+1, err)
}

// eventScanner reads one row after another into the same event, to reduce allocations. It reuses
// its buffers, and keeps the string of the previous row if a column has the same text, as most
// columns do.
type eventScanner struct {
	event   journal.Event
	text    []byte
	payload []byte
	salt    [journal.SaltSize]byte
}

func (s *eventScanner) read(r *Row) error {
	e := &s.event
	e.Seq = r.s.ColumnInt64(0)
	e.At = time.UnixMicro(r.s.ColumnInt64(1)).UTC()
	code := string(e.Code)
	for i, field := range [...]*string{&e.ID, &code, &e.Session, &e.Run, &e.Actor, &e.Subject} {
		s.readText(r, 2+i, field)
	}
	e.Code = event.Code(code)
	for i, h := range [...]*[32]byte{&e.Hash, &e.PrevHash, &e.PayloadSHA256} {
		if err := r.hash(8+i, e.Seq, h); err != nil {
			return err
		}
	}
	return s.readPayload(r)
}

func (s *eventScanner) readText(r *Row, col int, field *string) {
	s.text = grow(s.text, r.s.ColumnLen(col))
	r.s.ColumnBytes(col, s.text)
	if *field != string(s.text) {
		*field = string(s.text)
	}
}

func (s *eventScanner) readPayload(r *Row) error {
	e := &s.event
	e.Salt, e.Payload = nil, nil
	if !r.IsNull(11) {
		if r.s.ColumnLen(11) != len(s.salt) {
			return &journal.CorruptError{Seq: e.Seq, What: "the stored salt does not have 32 bytes"}
		}
		r.s.ColumnBytes(11, s.salt[:])
		e.Salt = s.salt[:]
	}
	if !r.IsNull(12) {
		s.payload = grow(s.payload, r.s.ColumnLen(12))
		r.s.ColumnBytes(12, s.payload)
		e.Payload = json.RawMessage(s.payload)
	}
	return nil
}

// grow returns a slice of length n that reuses b's memory if its capacity is sufficient.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n, n+cap(b)) // exact the first time, with spare capacity later
	}
	return b[:n]
}
