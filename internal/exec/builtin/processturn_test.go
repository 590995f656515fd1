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

// TestProcessTurns: no more programs than the most run at once, and whoever
// waits gives up with its call.
func TestProcessTurns(t *testing.T) {
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
				cancel() // nobody will make room
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

// holding is a sandbox whose programs run until they are let go.
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

// TestProcessTurnsInOrder: each program that ends makes room for one that waits,
// and for no more.
func TestProcessTurnsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most, calls = 2, 5
		h := &holding{let: make(chan struct{})}
		p := newProcess(Config{Runner: h, Process: ProcessPolicy{Turns: limit.NewQueue(most, 100)}})
		var running sync.WaitGroup
		for range calls {
			running.Go(func() {
				if _, err := p.inTurn(t.Context(), access.Caller{}, sandbox.Spec{}); err != nil {
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

// TestProcessQueueIsBounded: a call that finds no room to wait is refused before it
// starts, with a time. With room it waits, until its own end.
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
				ctx, cancel = context.WithTimeout(ctx, time.Millisecond) // nobody will make room
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
