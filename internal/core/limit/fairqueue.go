package limit

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Who identifies a requester of a place: a principal, and the user responsible for it. For a
// user, both are the same.
type Who struct{ Owner, Principal string }

// Full is the error for a request that may not wait.
type Full struct {
	// Waiting is the number of waiting requests.
	Waiting int
	// RetryAfter is the estimated time until as many places have become free as requests wait now.
	// It is at least a second and at most a minute.
	RetryAfter time.Duration
}

// Error reports the number of waiting requests.
func (f *Full) Error() string { return fmt.Sprintf("%d wait for a place already", f.Waiting) }

const leastRetry, mostRetry = time.Second, time.Minute

// Queue manages places and the requests waiting for one. It is safe for concurrent use.
type Queue struct {
	// each is the number of places that one owner can hold at once.
	places, most, each int

	mu    sync.Mutex
	taken int
	// holds is the number of places that each owner holds.
	holds   map[string]int
	waiting int
	refused int
	// held is a moving average of the time that a place is held: each release counts an eighth.
	held   time.Duration
	owners turns
}

// turns are lines by name, in the order in which they are served next.
type turns struct {
	order  list.List
	byName map[string]*line
}

// line holds the waiting requests of one owner or one principal. A line of an owner has lines
// by principal; a line of a principal has tickets.
type line struct {
	name       string
	at         *list.Element
	waiting    int
	principals turns
	tickets    list.List
}

// ticket is one waiting request; called is closed when it has a place.
type ticket struct {
	owner, principal *line
	at               *list.Element
	called           chan struct{}
}

// NewQueue returns a queue for that many places, at least one. At most waiting requests wait.
func NewQueue(places, waiting int) *Queue { return NewSharedQueue(places, waiting, places) }

// NewSharedQueue returns a queue in which one owner holds at most each of the places at once. The
// others stay free for other owners.
func NewSharedQueue(places, waiting, each int) *Queue {
	return &Queue{places: max(places, 1), most: waiting, each: max(each, 1), holds: make(map[string]int)}
}

// Enter waits for a place. leave returns it; further calls of leave do nothing. The error is a
// *Full, or the error of the context if it ended before a place was free.
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
	return sync.OnceFunc(func() { q.leave(who.Owner, time.Since(since)) }), nil
}

// Waiting returns the number of waiting requests.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Refused returns the number of refused requests since the start.
func (q *Queue) Refused() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// admit takes a free place and returns nil, or returns a ticket for a waiting request.
func (q *Queue) admit(who Who) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken < q.places && q.mayHold(who.Owner) { // every waiting request is of an owner who may not
		q.take(who.Owner)
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

// roomFor reports whether one more request may wait.
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

// mayHold reports whether an owner may hold one more place.
func (q *Queue) mayHold(owner string) bool { return q.holds[owner] < q.each }

func (q *Queue) take(owner string) {
	q.taken++
	q.holds[owner]++
}

// leave passes the place of an owner to the next waiting request, or marks it as free.
func (q *Queue) leave(owner string, held time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held += (held - q.held) / 8
	q.handOn(owner)
}

func (q *Queue) handOn(from string) {
	q.taken--
	if q.holds[from]--; q.holds[from] == 0 {
		delete(q.holds, from)
	}
	owner := q.owners.next(q.mayHold)
	if owner == nil {
		return
	}
	anyone := func(string) bool { return true }
	t, _ := owner.principals.next(anyone).tickets.Front().Value.(*ticket)
	q.take(owner.name)
	q.remove(t)
	close(t.called)
}

// giveUp withdraws a ticket. If it has a place meanwhile, giveUp passes the place to the next
// request.
func (q *Queue) giveUp(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.called:
		q.handOn(t.owner.name)
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

// line returns the line of a name, or adds a new one as the last.
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

// next returns the first line whose name is allowed, and moves it to the end; nil if there is none.
func (t *turns) next(allowed func(name string) bool) *line {
	for at := t.order.Front(); at != nil; at = at.Next() {
		if l, _ := at.Value.(*line); allowed(l.name) {
			t.order.MoveToBack(at)
			return l
		}
	}
	return nil
}

func (t *turns) dropEmpty(l *line) {
	if l.waiting == 0 {
		t.order.Remove(l.at)
		delete(t.byName, l.name)
	}
}
