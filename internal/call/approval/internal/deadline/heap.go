package deadline

import "time"

// due is the deadline of an id.
type due struct {
	id    string
	at    time.Time
	index int
}

// dueQueue implements heap.Interface.
type dueQueue []*due

func (q dueQueue) Len() int { return len(q) }

func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds a *due at the end.
func (q *dueQueue) Push(x any) {
	item, ok := x.(*due)
	if !ok {
		panic("deadline: only Queue pushes on the heap")
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

// Next returns the earliest deadline, or zero.
func (q *Queue) Next() time.Time {
	if len(q.queue) == 0 {
		return time.Time{}
	}
	return q.queue[0].at
}

// Pop removes at most limit ids that are due.
func (q *Queue) Pop(now time.Time, limit int) (ids []string) {
	for len(q.queue) > 0 && len(ids) < limit && !now.Before(q.queue[0].at) {
		id := q.queue[0].id
		ids = append(ids, id)
		q.Remove(id)
	}
	return ids
}
