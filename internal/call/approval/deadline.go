package approval

import (
	"container/heap"
	"sync"
	"time"
)

// due is a record or grant whose time will be up.
type due struct {
	id    string
	grant bool
	at    time.Time
	index int
}

// deadlines is a heap of what is due, earliest first, with one entry per id.
type deadlines struct {
	queue dueQueue
	byID  map[string]*due
}

func newDeadlines() *deadlines { return &deadlines{byID: map[string]*due{}} }

// set puts or moves the deadline of id and reports whether it is now the
// earliest of all.
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

// pop takes out at most limit ids that are due.
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

// Clock is what deadlines of approvals and grants are measured by. It follows the
// wall clock forward and never goes back: when the wall clock is set back, it goes
// on by the monotonic clock. It starts no earlier than the last event of the
// journal. Example: a grant for an hour is given while the wall clock is a year
// ahead, and then the wall clock is set right. By the wall clock the grant would
// last a year and an hour; by Clock it lasts an hour.
type Clock struct {
	wall func() time.Time
	// passed is how much time has gone by; nobody can set it.
	passed func() time.Duration

	mu   sync.Mutex
	at   time.Time
	mark time.Duration // what passed said at that time
}

// NewClock returns a clock that starts at the later of from and the wall
// clock.
func NewClock(from time.Time, wall func() time.Time) *Clock {
	began := time.Now()
	return &Clock{wall: wall, passed: func() time.Duration { return time.Since(began) }, at: from}
}

// Now is the time that deadlines are compared with.
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
