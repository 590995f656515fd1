package approval

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"palyra/internal/core/event"
)

// due is a record or grant with its deadline.
type due struct {
	id    string
	grant bool
	at    time.Time
	index int
}

// deadlines is a heap of records and grants, earliest deadline first, with one entry per id.
type deadlines struct {
	queue dueQueue
	byID  map[string]*due
}

func newDeadlines() *deadlines { return &deadlines{byID: map[string]*due{}} }

// set adds or moves the deadline of id and reports whether it is now the earliest of all.
func (d *deadlines) set(id string, grant bool, at time.Time) (earliest bool) {
	item, ok := d.byID[id]
	if ok {
		item.at = at
		heap.Fix(&d.queue, item.index)
	} else {
		item = &due{id: id, grant: grant, at: at}
		d.byID[id] = item
		heap.Push(&d.queue, item)
	}
	return item.index == 0
}

func (d *deadlines) remove(id string) {
	if item, ok := d.byID[id]; ok {
		heap.Remove(&d.queue, item.index)
		delete(d.byID, id)
	}
}

func (d *deadlines) next() (time.Time, bool) {
	if len(d.queue) == 0 {
		return time.Time{}, false
	}
	return d.queue[0].at, true
}

// pop removes at most limit ids that are due.
func (d *deadlines) pop(now time.Time, limit int) []due {
	var list []due
	for len(d.queue) > 0 && len(list) < limit && !now.Before(d.queue[0].at) {
		item := d.queue[0]
		list = append(list, *item)
		d.remove(item.id)
	}
	return list
}

// dueQueue implements heap.Interface.
type dueQueue []*due

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a *due at the end.
func (q *dueQueue) Push(x any) {
	item, ok := x.(*due)
	if !ok {
		panic("approval: only deadlines push on the queue")
	}
	item.index = len(*q)
	*q = append(*q, item)
}

// Pop removes the last element.
func (q *dueQueue) Pop() any {
	old := *q
	item := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return item
}

// Clock measures the deadlines of approvals and grants. It follows the wall clock forward and
// never goes back: if the wall clock is set back, it continues by the monotonic clock. It
// starts no earlier than the last event of the journal. Example: a grant for an hour is given
// while the wall clock is a year ahead, and then the wall clock is corrected. By the wall clock
// the grant would last a year and an hour; by Clock it lasts an hour.
type Clock struct {
	wall func() time.Time
	// passed returns the elapsed monotonic time, which cannot be set.
	passed func() time.Duration

	mu   sync.Mutex
	at   time.Time
	mark time.Duration // the value of passed at that time
}

// NewClock returns a clock that starts at the later of from and the wall clock.
func NewClock(from time.Time, wall func() time.Time) *Clock {
	began := time.Now()
	return &Clock{wall: wall, passed: func() time.Duration { return time.Since(began) }, at: from}
}

// Now returns the time that deadlines are compared with.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.passed()
	at := c.at.Add(passed - c.mark)
	if w := c.wall(); w.After(at) {
		at = w
	}
	c.at, c.mark = at, passed
	return at
}

// expireNow expires a record whose deadline has passed and returns a conflict.
func (d *Desk) expireNow(ctx context.Context, id string) error {
	if err := d.expire(ctx, []due{{id: id}}); err != nil {
		return err
	}
	rec, err := d.store.Record(ctx, id)
	if err != nil {
		return notFound(err, "approval", id)
	}
	return conflict(rec)
}

func (d *Desk) expireIn(tx Tx, id string) (Record, error) {
	rec, err := tx.Record(id)
	if errors.Is(err, ErrNotFound) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	now := d.now()
	deadline := rec.deadline()
	if deadline.IsZero() || now.Before(deadline) {
		return Record{}, nil
	}
	note := "not answered in time"
	if rec.State == Allowed {
		note = "not used in time"
	}
	s := expiry(rec, note)
	s.at = now
	return transition(tx, s)
}

// expire expires, in one unit, the records whose deadlines have passed. Records that were
// settled meanwhile are skipped.
func (d *Desk) expire(ctx context.Context, items []due) error {
	if len(items) == 0 {
		return nil
	}
	var expired []Record
	err := d.update(ctx, func(tx Tx) error {
		expired = expired[:0]
		for _, item := range items {
			rec, err := d.expireIn(tx, item.id)
			if err != nil {
				return err
			}
			if rec.State == Expired {
				expired = append(expired, rec)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, rec := range expired {
		d.settle(rec)
	}
	return nil
}

// expiry returns the step that expires a record in its present state.
func expiry(rec Record, note string) step {
	return step{
		id: rec.ID, from: rec.State, version: rec.Version, to: Expired,
		actor: daemon, note: note, events: stateEvents(event.Expired, rec.State),
	}
}
