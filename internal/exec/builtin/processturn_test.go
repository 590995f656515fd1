package builtin

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// TestProcessConcurrency: the number of concurrent programs is limited, and a waiting call
// returns when its context ends.
func TestProcessConcurrency(t *testing.T) {
	t.Parallel()
	for most, refused := range map[int]bool{1: true, 2: false} { // the second is the control
		b, r, _ := processBench(t, func(c *Config) { c.Process.Turns = limit.NewQueue(most, 100) })
		in := object{"argv": []string{"git"}}
		var second tool.Report
		r.during = func() {
			r.during = nil
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if refused {
				cancel() // no slot becomes free
			}
			second, _ = b.call(ctx, "process.run", in)
		}
		first, _ := b.call(context.Background(), "process.run", in)
		if first.Outcome != tool.Succeeded {
			t.Errorf("the first of %d: %+v", most, first)
		}
		if got := reason.Code(second.Reason) == reason.Cancelled; got != refused || refused && len(r.specs) != 1 {
			t.Errorf("the second of %d: %+v; %d programs ran", most, second, len(r.specs))
		}
		if third, _ := b.call(context.Background(), "process.run", in); third.Outcome != tool.Succeeded {
			t.Errorf("after them, of %d: %+v", most, third)
		}
	}
}

// holding is a sandbox whose programs run until they are released.
type holding struct {
	runner
	begun atomic.Int32
	let   chan struct{}
}

func (h *holding) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	h.begun.Add(1)
	<-h.let
	return sandbox.Report{}, nil
}

// TestProcessQueueIsOrdered: each program that ends frees a slot for exactly one waiting call.
func TestProcessQueueIsOrdered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, calls = 2, 5
		h := &holding{let: make(chan struct{})}
		p := newProcess(Config{Runner: h, Process: ProcessPolicy{Turns: limit.NewQueue(most, 100)}})
		var running sync.WaitGroup
		for range calls {
			running.Go(func() {
				if _, err := p.runner.inTurn(t.Context(), h, access.Caller{}, sandbox.Spec{}); err != nil {
					t.Error(err)
				}
			})
		}
		for want := most; want <= calls; want++ {
			synctest.Wait()
			if got := h.begun.Load(); int(got) != want {
				t.Errorf("%d programs have begun, want %d", got, want)
			}
			h.let <- struct{}{}
		}
		close(h.let)
		running.Wait()
	})
}

// TestProcessQueueIsBounded: a call that finds the queue full is refused before it starts, with
// a retry time. Otherwise it waits until its context ends.
func TestProcessQueueIsBounded(t *testing.T) {
	t.Parallel()
	for waiting := range 2 {
		b, r, _ := processBench(t, func(c *Config) { c.Process.Turns = limit.NewQueue(1, waiting) })
		in := object{"argv": []string{"git"}}
		var second tool.Report
		r.during = func() {
			r.during = nil
			ctx := context.Background()
			if waiting > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Millisecond) // no slot becomes free
				defer cancel()
			}
			second, _ = b.call(ctx, "process.run", in)
		}
		b.call(context.Background(), "process.run", in)
		if waiting == 0 && (reason.Code(second.Reason) != reason.RateLimited || second.Outcome != tool.Refused || !strings.Contains(second.Message, "try again in 1s")) {
			t.Errorf("without room: %+v", second)
		}
		if waiting == 1 && reason.Code(second.Reason) == reason.RateLimited || len(r.specs) != 1 {
			t.Errorf("with room: %+v; %d programs ran", second, len(r.specs))
		}
	}
}
