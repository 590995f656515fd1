package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"palyra/internal/event"
	"palyra/internal/journal"
)

const eventColumns = `seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload`

const eventColumnCount = 13

const scanEvents = "SELECT " + eventColumns + " FROM events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq"

// scanEvent reads a row of eventColumns into an event of its own.
func scanEvent(r *Row) (journal.Event, error) {
	s := eventScanner{}
	err := s.read(r)
	return s.event, err
}

// Scan calls fn with the events after..upTo, oldest first, within one
// snapshot. The event and its payload are valid only during the call.
func (db *DB) Scan(ctx context.Context, after, upTo int64, fn func(*journal.Event) error) error {
	return db.Read(ctx, func(c *Conn) error { return c.scan(after, upTo, fn) })
}

func (c *Conn) scan(after, upTo int64, fn func(*journal.Event) error) error {
	s := eventScanner{}
	last := after
	err := c.Query(scanEvents, func(r *Row) error {
		if err := s.read(r); err != nil {
			return err
		}
		last = s.event.Seq
		return fn(&s.event)
	}, after, upTo)
	return damagedFrom(last+1, err)
}

// eventScanner reads rows one after the other into the same event, to allocate
// little: it uses its buffers again, and keeps the string of the row before when a
// column has the same text, as most columns do.
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

// grow returns a slice of length n that uses b's room if it has enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n, n+cap(b)) // exact the first time, roomier after that
	}
	return b[:n]
}
