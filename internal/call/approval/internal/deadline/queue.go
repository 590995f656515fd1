// Package deadline orders ids by their deadlines.
package deadline

import (
	"container/heap"
	"time"
)

// Queue is a heap of ids, earliest deadline first, each once. Its user guards it with a lock.
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
