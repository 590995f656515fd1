package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// placesOf fills the table for one tile from its events.
const placesOf = `INSERT INTO event_places (n, code, actor, places)
SELECT ?1, code, actor, unhex(group_concat(printf('%02x', (seq - 1) % 256), '' ORDER BY seq))
FROM events WHERE seq > ?1 * 256 AND seq <= ?1 * 256 + 256 GROUP BY code, actor`

// openTile collects the places of codes and actors in the incomplete tile, so that its events need
// not be read again once it is complete.
type openTile struct {
	places map[codeActor][]byte
	// next is the event that follows the scanned events; whole means that they were scanned from
	// the first event of the tile.
	next  int64
	whole bool
}

type codeActor struct {
	code  event.Code
	actor string
}

// notePlaces stores the places of the codes and actors of a tile once the tile is complete.
func (x *eventIndex) notePlaces(e *journal.Event) error {
	t, at := &x.tile, (e.Seq-1)%journal.TileWidth
	switch {
	case at == 0:
		t.places, t.whole = make(map[codeActor][]byte), true
	case e.Seq != t.next:
		t.whole = false // palyrad has just started, or a unit was rolled back
	}
	t.next = e.Seq + 1
	if t.whole {
		key := codeActor{e.Code, e.Actor}
		t.places[key] = append(t.places[key], byte(at))
	}
	if at < journal.TileWidth-1 {
		return nil
	}
	c, n := Conn{c: x.conn}, e.Seq/journal.TileWidth-1
	if !t.whole {
		return c.Query(placesOf, nil, n)
	}
	for of, places := range t.places {
		if err := c.Query("INSERT INTO event_places (n, code, actor, places) VALUES (?1, ?2, ?3, ?4)", nil, n, string(of.code), of.actor, places); err != nil {
			return err
		}
	}
	return nil
}

// byPlaces reports whether a filter's events are found by code and actor, because no other index
// serves the filter.
func byPlaces(f journal.Filter) bool {
	coded := f.Code != "" && !slices.Contains(indexed, event.Code(f.Code))
	return (coded || f.Actor != "") && f.Session == "" && f.Run == "" && f.Subject == ""
}

// placed returns one page of the events of a filter. It finds events of complete tiles
// through their places and reads the later events one by one.
func (rows eventRows) placed(f journal.Filter) ([]journal.Event, error) {
	f.Limit = cmp.Or(max(f.Limit, 0), journal.DefaultLimit)
	covered, err := rows.covered()
	if err != nil {
		return nil, err
	}
	tail := func(f journal.Filter) ([]journal.Event, error) {
		f.After = max(f.After, covered)
		return rows.read(f)
	}
	placed := func(f journal.Filter) (events []journal.Event, err error) {
		seqs, err := rows.places(f, covered)
		if err != nil {
			return nil, err
		}
		for _, seq := range seqs {
			e, err := rows.eventAt(seq, f)
			if err != nil {
				return nil, err
			}
			events = append(events, e)
		}
		return events, nil
	}
	parts := []func(journal.Filter) ([]journal.Event, error){placed, tail}
	if f.Newest {
		slices.Reverse(parts)
	}
	var events []journal.Event
	for _, part := range parts {
		rest := f
		if rest.Limit -= len(events); rest.Limit == 0 {
			break
		}
		more, err := part(rest)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

// covered returns the last event whose place is recorded.
func (rows eventRows) covered() (seq int64, err error) {
	_, err = rows.QueryRow("SELECT n FROM event_places ORDER BY n DESC LIMIT 1", func(r *Row) error {
		seq = (r.Int64(0) + 1) * journal.TileWidth
		return nil
	})
	return seq, err
}

// errEnough ends a query early.
var errEnough = errors.New("there are enough")

// places returns the sequence numbers of the filter's events up to covered, in the filter's order
// and at most its limit.
func (rows eventRows) places(f journal.Filter, covered int64) (seqs []int64, err error) {
	query, args, bounds, err := rows.placesQuery(f, covered)
	if err != nil || query == "" {
		return nil, err
	}
	var tile []int64
	at := int64(-1)
	flush := func() {
		slices.Sort(tile)
		if f.Newest {
			slices.Reverse(tile)
		}
		seqs = append(seqs, tile...)
		tile = tile[:0]
	}
	err = rows.Query(query, func(r *Row) error {
		n := r.Int64(0)
		if n != at {
			if flush(); len(seqs) >= f.Limit {
				return errEnough
			}
			at = n
		}
		for _, place := range r.Bytes(1) {
			if seq := n*journal.TileWidth + int64(place) + 1; seq > bounds.after && seq <= bounds.upTo {
				tile = append(tile, seq)
			}
		}
		return nil
	}, args...)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	flush()
	return seqs[:min(len(seqs), f.Limit)], nil
}

// bounds are bounds of sequence numbers: after is exclusive, upTo is inclusive.
type bounds struct{ after, upTo int64 }

// placesQuery returns an empty query if no event can be within the bounds.
func (rows eventRows) placesQuery(f journal.Filter, covered int64) (query string, args []any, b bounds, err error) {
	if b.after, b.upTo, err = rows.seqBounds(f); err != nil {
		return "", nil, b, err
	}
	if b.upTo < 0 || b.upTo > covered {
		b.upTo = covered
	}
	if b.upTo <= b.after {
		return "", nil, b, nil
	}
	where := &whereClause{}
	where.add("n >= ?", b.after/journal.TileWidth)
	where.add("n <= ?", (b.upTo-1)/journal.TileWidth)
	if f.Code != "" {
		where.add("code >= ? AND code < ?", f.Code, f.Code+"\U0010FFFF")
	}
	if f.Actor != "" {
		where.add("actor = ?", f.Actor)
	}
	way := "ASC"
	if f.Newest {
		way = "DESC"
	}
	return "SELECT n, places FROM event_places" + where.text() + " ORDER BY n " + way, where.args, b, nil
}

// eventAt reads an event that a filter selects by its place.
func (rows eventRows) eventAt(seq int64, f journal.Filter) (e journal.Event, err error) {
	found, err := rows.QueryRow("SELECT "+eventColumns+" FROM events WHERE seq = ?1", func(r *Row) error { e, err = scanEvent(r); return err }, seq)
	if err != nil {
		return e, err
	}
	if !found || !strings.HasPrefix(string(e.Code), f.Code) || f.Actor != "" && e.Actor != f.Actor {
		return e, &journal.CorruptError{Seq: seq, What: fmt.Sprintf("the store lists it as one with the code %q and the actor %q, and it is not there", f.Code, f.Actor)}
	}
	return e, nil
}

// placedSource verifies a store. In addition to the scanned events it checks the places of
// their tiles. A missing entry would hide events from filters by code or actor, and no query
// would reveal it.
type placedSource struct {
	*DB
	covered int64
}

// Scan implements journal.Source. The scanned ranges consist of whole tiles.
func (s placedSource) Scan(ctx context.Context, after, upTo int64, fn func(*journal.Event) error) error {
	return s.Read(ctx, func(c *Conn) error {
		tiles := make(map[int64]map[codeActor][]byte)
		err := eventRows{c}.scan(after, upTo, func(e *journal.Event) error {
			n, at := (e.Seq-1)/journal.TileWidth, (e.Seq-1)%journal.TileWidth
			if tiles[n] == nil {
				tiles[n] = make(map[codeActor][]byte)
			}
			key := codeActor{e.Code, e.Actor}
			tiles[n][key] = append(tiles[n][key], byte(at))
			return fn(e)
		})
		if err != nil {
			return err
		}
		return eventRows{c}.checkPlaces((after+journal.TileWidth-1)/journal.TileWidth, min(upTo, s.covered)/journal.TileWidth, tiles)
	})
}

// checkPlaces compares the stored places of the tiles from first to end (exclusive) with their
// events.
func (rows eventRows) checkPlaces(first, end int64, tiles map[int64]map[codeActor][]byte) error {
	if end <= first {
		return nil
	}
	wrong := func(n int64) error {
		return &journal.CorruptError{Seq: n*journal.TileWidth + 1, What: "the store's index of events by code and actor differs from the events from here on"}
	}
	err := rows.Query("SELECT n, code, actor, places FROM event_places WHERE n >= ?1 AND n < ?2", func(r *Row) error {
		n, key := r.Int64(0), codeActor{event.Code(r.Text(1)), r.Text(2)}
		if places, there := tiles[n][key]; !there || !bytes.Equal(places, r.Bytes(3)) {
			return wrong(n)
		}
		delete(tiles[n], key)
		return nil
	}, first, end)
	if err != nil {
		return err
	}
	for n := first; n < end; n++ {
		if len(tiles[n]) > 0 {
			return wrong(n)
		}
	}
	return nil
}
