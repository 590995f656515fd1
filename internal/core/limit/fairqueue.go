package limit

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Who wants a place: a principal, and the user who answers for it. For a user both
// are the same.
type Who struct{ Owner, Principal string }

// Full is the error of one who may not wait.
type Full struct {
	// Waiting is how many wait.
	Waiting int
	// RetryAfter is about how long it takes until as many places have become free
	// as wait now; at least a second, at most a minute.
	RetryAfter time.Duration
}

// Error reports the number of waiting requests.
func (f *Full) Error() string { return fmt.Sprintf("%d wait for a place already", f.Waiting) }

const leastRetry, mostRetry = time.Second, time.Minute

// Queue manages places and the requests waiting for one. It is safe for concurrent use.
type Queue struct {
	places, most int

	mu      sync.Mutex
	taken   int
	waiting int
	refused int
	// held is about how long a place is kept: each end counts an eighth.
	held   time.Duration
	owners turns
}

// turns are lines in the order in which they are served next, by name.
type turns struct {
	order  list.List
	byName map[string]*line
}

// line holds the waiting requests of one owner or one principal. An owner has lines by principal,
// and a principal has tickets.
type line struct {
	name       string
	at         *list.Element
	waiting    int
	principals turns
	tickets    list.List
}

// ticket is one who waits; called is closed when it has a place.
type ticket struct {
	owner, principal *line
	at               *list.Element
	called           chan struct{}
}

// NewQueue returns a queue for that many places, and at least one; at most waiting wait.
func NewQueue(places, waiting int) *Queue { return &Queue{places: max(places, 1), most: waiting} }

// Enter waits for a place. leave returns it; further calls of it do nothing. The error is a *Full,
// or the error of the context if it ended before a place was free.
func (q *Queue) Enter(ctx context.Context, who Who) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := q.admit(who)
	if err != nil {
		return nil, err
	}
	if t != nil {
		select {
		case <-t.called:
		case <-ctx.Done():
			q.giveUp(t)
			return nil, ctx.Err()
		}
	}
	since := time.Now()
	return sync.OnceFunc(func() { q.leave(time.Since(since)) }), nil
}

// Waiting returns how many wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Refused returns how many were not let wait since the start.
func (q *Queue) Refused() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// admit takes a free place and returns no ticket, or returns a ticket.
func (q *Queue) admit(who Who) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken < q.places { // the queue is then empty
		q.taken++
		return nil, nil
	}
	if !q.roomFor(who) {
		q.refused++
		return nil, &Full{Waiting: q.waiting, RetryAfter: q.patience()}
	}
	t := &ticket{owner: q.owners.line(who.Owner), called: make(chan struct{})}
	t.principal = t.owner.principals.line(who.Principal)
	t.at = t.principal.tickets.PushBack(t)
	t.owner.waiting++
	t.principal.waiting++
	q.waiting++
	return t, nil
}

// roomFor says whether one more may wait.
func (q *Queue) roomFor(who Who) bool {
	free := q.most - q.waiting
	owner := q.owners.byName[who.Owner]
	if owner == nil {
		return free > 0
	}
	principal := owner.principals.byName[who.Principal]
	return owner.waiting < free && (principal == nil || principal.waiting < (free+1)/2)
}

// patience estimates how long the requests waiting now will wait for a place.
func (q *Queue) patience() time.Duration {
	rounds := time.Duration(q.waiting/q.places + 1)
	if q.held > mostRetry/rounds {
		return mostRetry
	}
	return max(q.held*rounds, leastRetry)
}

// leave hands a place to who is next, or has one more free.
func (q *Queue) leave(held time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held += (held - q.held) / 8
	q.handOn()
}

func (q *Queue) handOn() {
	if q.waiting == 0 {
		q.taken--
		return
	}
	owner := q.owners.next()
	t, _ := owner.principals.next().tickets.Front().Value.(*ticket)
	q.remove(t)
	close(t.called)
}

// giveUp takes back a ticket. A place that it was given meanwhile goes on to the
// next.
func (q *Queue) giveUp(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.called:
		q.handOn()
	default:
		q.remove(t)
	}
}

func (q *Queue) remove(t *ticket) {
	t.principal.tickets.Remove(t.at)
	q.waiting--
	t.principal.waiting--
	t.owner.waiting--
	t.owner.principals.dropEmpty(t.principal)
	q.owners.dropEmpty(t.owner)
}

// line finds a line, or starts one that comes last.
func (t *turns) line(name string) *line {
	if l := t.byName[name]; l != nil {
		return l
	}
	if t.byName == nil {
		t.byName = make(map[string]*line)
	}
	l := &line{name: name}
	l.at = t.order.PushBack(l)
	t.byName[name] = l
	return l
}

// next returns the line whose turn it is, and puts it last.
func (t *turns) next() *line {
	l, _ := t.order.Front().Value.(*line)
	t.order.MoveToBack(l.at)
	return l
}

func (t *turns) dropEmpty(l *line) {
	if l.waiting == 0 {
		t.order.Remove(l.at)
		delete(t.byName, l.name)
	}
}
