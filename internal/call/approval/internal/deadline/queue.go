// Package deadline orders ids by their deadlines.
package deadline

import (
	"container/heap"
	"time"
)

// Queue is a heap of ids, earliest deadline first, with one entry per id. Its user guards it
// with a lock.
type Queue struct {
	queue dueQueue
	byID  map[string]*due
	wake  chan<- struct{}
}

// New returns an empty queue. A value is sent to wake, unless it is full, when another deadline
// becomes the earliest.
func New(wake chan<- struct{}) *Queue {
	return &Queue{byID: map[string]*due{}, wake: wake}
}

// Set adds or moves the deadline of id.
func (q *Queue) Set(id string, at time.Time) {
	item, ok := q.byID[id]
	if ok {
		item.at = at
		heap.Fix(&q.queue, item.index)
	} else {
		item = &due{id: id, at: at}
		q.byID[id] = item
		heap.Push(&q.queue, item)
	}
	if item.index == 0 {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// Remove removes the deadline of id.
func (q *Queue) Remove(id string) {
	if item, ok := q.byID[id]; ok {
		heap.Remove(&q.queue, item.index)
		delete(q.byID, id)
	}
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
