package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

var (
	alice = Who{"user:alice", "user:alice"}
	coder = Who{"user:alice", "agent:coder"}
	bob   = Who{"user:bob", "user:bob"}
)

// enterer is a queue, or its replacement in a control.
type enterer interface {
	Enter(ctx context.Context, who Who) (leave func(), err error)
}

// arrivals lets callers enter in order while all places are taken; each leaves as soon as it
// has a place. It returns the callers in the order in which they were served.
func arrivals(t *testing.T, q enterer, all ...Who) (served []string) {
	t.Helper()
	leave := must.Get(q.Enter(t.Context(), Who{"x", "x"}))(t)
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for _, who := range all {
		waiting.Go(func() {
			leave, err := q.Enter(t.Context(), who)
			if err != nil {
				t.Errorf("%s: %v", who.Principal, err)
				return
			}
			mu.Lock()
			served = append(served, who.Principal)
			mu.Unlock()
			leave()
		})
		synctest.Wait()
	}
	leave()
	waiting.Wait()
	return served
}

func times(n int, who Who) []Who { return slices.Repeat([]Who{who}, n) }

func TestSlotsRotate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		come []Who
		want string
	}{
		"one after the other": {[]Who{alice, alice}, "user:alice user:alice"},
		"owners": {
			append(times(3, coder), bob, bob), "agent:coder user:bob agent:coder user:bob agent:coder",
		},
		"an owner and an agent": {
			append(times(3, coder), alice, bob), "agent:coder user:bob user:alice agent:coder agent:coder",
		},
		"agents make no more turns of an owner": {
			[]Who{coder, {"user:alice", "agent:b"}, {"user:alice", "agent:c"}, bob, bob}, "agent:coder user:bob agent:b user:bob agent:c",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := strings.Join(arrivals(t, NewQueue(1, 100), c.come...), " "); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		})
	}
}

// fifo serves in the order of arrival, as a channel does.
type fifo chan struct{}

func (f fifo) Enter(ctx context.Context, _ Who) (func(), error) {
	select {
	case f <- struct{}{}:
		return func() { <-f }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestFairness: after a hundred calls of an agent, a call of its owner and one of another user
// are among the first to be served. Control: the queue of a channel.
func TestFairness(t *testing.T) {
	t.Parallel()
	worst := func(build func() enterer) (last int) {
		synctest.Test(t, func(t *testing.T) {
			served := arrivals(t, build(), append(times(100, coder), alice, bob)...)
			last = max(slices.Index(served, "user:alice"), slices.Index(served, "user:bob"))
		})
		return last
	}
	if at := worst(func() enterer { return NewQueue(1, 1024) }); at > 3 {
		t.Errorf("a call came %d calls of an agent too late", at)
	}
	if at := worst(func() enterer { return make(fifo, 1) }); at < 100 {
		t.Errorf("the control served both after %d; the test shows nothing", at)
	}
}

// TestQueueIsShared: a caller that fills its share is refused with a retry time; others can
// still enter, including other callers of the same owner.
func TestQueueIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 30)
		for range 2 {
			leave := must.Get(q.Enter(t.Context(), bob))(t)
			defer leave()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		fill := func(who Who) (n int) {
			for ; ; n++ {
				refused := make(chan error, 1)
				all.Go(func() {
					_, err := q.Enter(ctx, who)
					refused <- err
				})
				synctest.Wait()
				select {
				case err := <-refused:
					var full *Full
					if !errors.As(err, &full) || full.Waiting != q.Waiting() || full.RetryAfter < time.Second || full.RetryAfter > time.Minute {
						t.Errorf("%s: %#v, want Full with a time", who.Principal, err)
					}
					return n
				default:
				}
			}
		}
		agent, owner, other := fill(coder), fill(alice), fill(bob)
		if agent != 10 || owner != 5 || other < 4 || q.Waiting() > 30 {
			t.Errorf("an agent has %d waiting, its owner %d, another %d, all %d; want 10, 5, at least 4, at most 30", agent, owner, other, q.Waiting())
		}
		for i := range 3 {
			if fill(Who{fmt.Sprint(i), fmt.Sprint(i)}) == 0 {
				t.Errorf("owner %d finds no room", i)
			}
		}
		if q.Refused() != 6 {
			t.Errorf("%d were refused, want 6", q.Refused())
		}
	})
}

// TestRetryAfterFollowsTheTimes: the retry time increases with the time that places are held
// and with the number of waiting callers.
func TestRetryAfterFollowsTheTimes(t *testing.T) {
	t.Parallel()
	q := &Queue{places: 2, most: 10}
	if got := q.patience(); got != time.Second {
		t.Errorf("without any experience: %v, want 1s", got)
	}
	q.held = 4 * time.Second
	if got := q.patience(); got != 4*time.Second {
		t.Errorf("nobody waits: %v, want 4s", got)
	}
	q.waiting = 6
	if got := q.patience(); got != 16*time.Second {
		t.Errorf("6 wait for 2 places of 4s: %v, want 16s", got)
	}
	q.held = 1 << 62
	if got := q.patience(); got != time.Minute {
		t.Errorf("an eternity: %v, want a minute", got)
	}
}

func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(1, 10)
		leave := must.Get(q.Enter(t.Context(), bob))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Enter(ctx, alice); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter: %v, want its deadline", err)
		}
		if q.Waiting() != 0 || len(q.owners.byName) != 0 || q.owners.order.Len() != 0 {
			t.Errorf("%d wait, %d owners are kept, want none", q.Waiting(), len(q.owners.byName))
		}
		leave()
		leave() // has no effect
		if _, err := q.Enter(ctx, alice); !errors.Is(err, context.DeadlineExceeded) || q.taken != 0 {
			t.Errorf("Enter after the end: %v, %d places taken", err, q.taken)
		}
		leave = must.Get(q.Enter(t.Context(), alice))(t)
		leave()
	})
}

// TestSlotOfACancelledWaiterIsReused: a slot that is assigned to a call at the moment it is
// cancelled is not lost.
func TestSlotOfACancelledWaiterIsReused(t *testing.T) {
	t.Parallel()
	q := NewQueue(1, 10)
	leave := must.Get(q.Enter(t.Context(), bob))(t)
	first, second := must.Get(q.admit(alice))(t), must.Get(q.admit(coder))(t)
	leave()
	q.giveUp(first)
	select {
	case <-second.called:
	default:
		t.Fatal("the place was lost")
	}
	q.giveUp(second)
	if q.taken != 0 || q.waiting != 0 {
		t.Errorf("%d places are taken and %d wait, want none", q.taken, q.waiting)
	}
}

// TestLeastQueue: a queue has at least one place, whatever its configuration. Without room to
// wait, no caller waits.
func TestLeastQueue(t *testing.T) {
	t.Parallel()
	q := NewQueue(0, 0)
	leave := must.Get(q.Enter(t.Context(), alice))(t)
	var full *Full
	if _, err := q.Enter(t.Context(), bob); !errors.As(err, &full) {
		t.Errorf("Enter: %v, want Full", err)
	}
	leave()
}

// TestRandomArrivals: for random arrivals, durations and cancellations, no more callers have a
// place than exist, and no more wait than permitted. No caller waits while a place is free, and
// the queue is empty at the end.
func TestRandomArrivals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			places, most := 1+r.IntN(4), 1+r.IntN(30)
			q := NewQueue(places, most)
			w := &watcher{t: t, q: q}
			var all sync.WaitGroup
			for range 200 {
				owner := fmt.Sprint(r.IntN(4))
				who := Who{owner, owner + "/" + fmt.Sprint(r.IntN(3))}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(5000))*time.Millisecond)
				stay := time.Duration(r.IntN(800)) * time.Millisecond
				all.Go(func() {
					defer cancel()
					w.visit(ctx, who, stay)
				})
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				synctest.Wait()
				w.look(places, most)
			}
			all.Wait()
			if q.taken != 0 || q.waiting != 0 || len(q.owners.byName) != 0 || q.owners.order.Len() != 0 {
				t.Errorf("seed %d: %d places taken, %d waiting, %d owners at the end", seed, q.taken, q.waiting, len(q.owners.byName))
			}
		})
	}
}

// watcher counts what the callers observe.
type watcher struct {
	t      *testing.T
	q      *Queue
	mu     sync.Mutex
	inside int
}

func (w *watcher) visit(ctx context.Context, who Who, stay time.Duration) {
	leave, err := w.q.Enter(ctx, who)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.inside++
	w.mu.Unlock()
	time.Sleep(stay)
	w.mu.Lock()
	w.inside--
	w.mu.Unlock()
	leave()
}

func (w *watcher) look(places, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.q.Waiting()
	switch {
	case w.inside > places:
		w.t.Errorf("%d have one of %d places", w.inside, places)
	case waiting > most:
		w.t.Errorf("%d wait, at most %d may", waiting, most)
	case waiting > 0 && w.inside < places:
		w.t.Errorf("%d wait though %d of %d places are taken", waiting, w.inside, places)
	}
}

// TestOwnerLeavesAPlaceToOthers: an owner who may hold one of two places waits, with any number of
// principals, while the other place is free for another owner. Control: a queue without that
// limit gives them both.
func TestOwnerLeavesAPlaceToOthers(t *testing.T) {
	t.Parallel()
	for each, want := range map[int]string{1: "user:bob agent:coder user:alice", 2: "agent:coder user:alice user:bob"} {
		synctest.Test(t, func(t *testing.T) {
			q := NewSharedQueue(2, 100, each)
			first := must.Get(q.Enter(t.Context(), alice))(t)
			var served []string
			var all sync.WaitGroup
			leaves := make(chan func(), 3)
			for _, who := range []Who{coder, alice, bob} {
				all.Go(func() {
					leave := must.Get(q.Enter(t.Context(), who))(t)
					served = append(served, who.Principal)
					leaves <- leave
				})
				synctest.Wait()
			}
			if each == 1 && strings.Join(served, " ") != "user:bob" {
				t.Errorf("before anybody leaves: %s", served)
			}
			first()
			synctest.Wait()
			for range 3 {
				(<-leaves)()
				synctest.Wait()
			}
			all.Wait()
			if got := strings.Join(served, " "); got != want {
				t.Errorf("each %d: %s, want %s", each, got, want)
			}
			if q.Waiting() != 0 || len(q.holds) != 0 || q.taken != 0 {
				t.Errorf("each %d: %d wait, %d places are taken by %v", each, q.Waiting(), q.taken, q.holds)
			}
		})
	}
}
