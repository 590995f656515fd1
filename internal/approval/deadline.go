package approval

import (
	"container/heap"
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
