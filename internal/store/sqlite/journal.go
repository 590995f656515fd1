package sqlite

import (
	"context"
	"time"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

const insertEvent = `INSERT INTO events
 (seq, at, id, code, session, run, actor, subject, hash, prev_hash, payload_sha256, salt, payload)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`

const insertTile = `INSERT INTO tiles (level, n, root, hashes) VALUES (?1, ?2, ?3, ?4)`

// checkDrafts refuses drafts that the format cannot hold.
func checkDrafts(drafts []event.Draft) error {
	for i := range drafts {
		if err := journal.CheckDraft(&drafts[i]); err != nil {
			return err
		}
	}
	return nil
}

// journalEnd appends events to the stored journal. writer.connMu guards it.
type journalEnd struct {
	conn    *zs.Conn
	head    journal.Head
	edge    *journal.Edge
	stepped bool // the clock is behind the chain, and an event has recorded that
	fresh   []journal.Event
	index   eventIndex
}

// noteClock appends an event when the clock is behind the last event, once for each step back.
func (j *journalEnd) noteClock(now time.Time) error {
	behind := now.Before(j.head.At)
	say := behind && !j.stepped
	j.stepped = behind
	if !say {
		return nil
	}
	payload, err := canonical.Marshal(map[string]any{
		"clock": now.Format(journal.TimeFormat), "journal": j.head.At.Format(journal.TimeFormat),
		"back_us": j.head.At.Sub(now).Microseconds(),
	})
	if err != nil {
		return err
	}
	_, err = j.seal(event.Draft{Code: event.ClockStepped, Actor: journal.Daemon, Payload: payload}, now, journal.NewNonce(), nil)
	return err
}

// seal appends one event of a unit and the tiles that it completes.
func (j *journalEnd) seal(d event.Draft, now time.Time, nonce journal.Nonce, unit []event.Draft) (journal.Event, error) {
	e := journal.Seal(j.head, d, now, nonce)
	if err := j.insert(&e); err != nil {
		return e, err
	}
	c := Conn{c: j.conn}
	for _, t := range j.edge.Append(e.Hash) {
		if err := c.Query(insertTile, nil, t.Level, t.N, t.Root[:], t.Hashes); err != nil {
			return e, err
		}
	}
	if err := j.index.note(&e, unit); err != nil {
		return e, err
	}
	if err := j.index.noteUnasked(&e, d.Unasked); err != nil {
		return e, err
	}
	j.head = e.Head()
	j.fresh = append(j.fresh, e)
	return e, nil
}

// insert binds its parameters directly, because it is the most frequent statement of the
// gateway.
func (j *journalEnd) insert(e *journal.Event) error {
	stmt, err := j.conn.Prepare(insertEvent)
	if err != nil {
		return err
	}
	stmt.BindInt64(1, e.Seq)
	stmt.BindInt64(2, e.At.UnixMicro())
	stmt.BindText(3, e.ID)
	stmt.BindText(4, string(e.Code))
	stmt.BindText(5, e.Session)
	stmt.BindText(6, e.Run)
	stmt.BindText(7, e.Actor)
	stmt.BindText(8, e.Subject)
	stmt.BindBytes(9, e.Hash[:])
	stmt.BindBytes(10, e.PrevHash[:])
	stmt.BindBytes(11, e.PayloadSHA256[:])
	stmt.BindBytes(12, e.Salt)
	stmt.BindBytes(13, e.Payload)
	_, err = stmt.Step()
	if err != nil {
		reset(stmt)
		return err
	}
	return stmt.Reset()
}

// load reads the head and the tree's edge from the file.
func (w *writer) load() error {
	c := &Conn{c: w.conn}
	head, err := readHead(c)
	if err != nil {
		return err
	}
	edge, err := readEdge(c, head.Seq)
	if err != nil {
		return err
	}
	if err := w.recent.load(); err != nil {
		return err
	}
	w.end.head, w.end.edge, w.end.stepped = head, edge, false
	w.end.index.forget()
	w.feed.Publish(head, nil)
	return nil
}

func readHead(c *Conn) (head journal.Head, err error) {
	_, err = c.QueryRow("SELECT seq, at, hash FROM events ORDER BY seq DESC LIMIT 1", func(r *Row) error {
		head = journal.Head{Seq: r.Int64(0), At: r.Time(1)}
		return r.hash(2, head.Seq, &head.Hash)
	})
	return head, err
}

func (r *Row) hash(col int, seq int64, h *[32]byte) error {
	if r.s.ColumnType(col) != zs.TypeBlob || r.s.ColumnLen(col) != len(h) {
		return &journal.CorruptError{Seq: seq, What: "a stored hash does not have 32 bytes"}
	}
	r.s.ColumnBytes(col, h[:])
	return nil
}

func readEdge(c *Conn, size int64) (*journal.Edge, error) {
	tree := journal.NewTree(size, connTiles{c})
	return tree.Edge()
}

func storedHead(ctx context.Context, db *DB) (head journal.Head, err error) {
	err = db.Read(ctx, func(c *Conn) error {
		head, err = readHead(c)
		return err
	})
	return head, err
}
