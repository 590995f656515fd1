//go:build linux && cgo

package wasm

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/test/wasm/wasmtest"
)

// timing is a Tier C that records when each sandbox started, by its process namespace.
type timing struct {
	sandbox.Runner
	mu      sync.Mutex
	started map[uint64]time.Time
	runs    int
}

func (c *timing) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	was := s.Session.Started
	s.Session.Started = func(u sandbox.Underway) {
		c.mu.Lock()
		c.started[u.Report.Isolation.Namespaces["pid"]] = time.Now()
		if s.Argv[1] == "run" {
			c.runs++
		}
		c.mu.Unlock()
		was(u)
	}
	return c.Runner.Run(ctx, s)
}

// TestWorkersStandReady: after a call that had to start a worker, a few further workers are
// ready for the next principals. Each is assigned to one principal.
func TestWorkersStandReady(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]bool{"with limits": true, "the control: without": false} {
		t.Run(name, func(t *testing.T) {
			tierC := &timing{Runner: wasmtest.TierC(t), started: map[uint64]time.Time{}}
			config := engine.Config{Sandbox: tierC, Worker: wasmtest.Worker, Dir: jailtest.Dir(t), Log: slog.New(slog.DiscardHandler)}
			if limits {
				config.Limits = wasmtest.Limits()
			}
			r := must.Get(engine.Open(config))(t)
			m := module(t, compiled(t, echo))
			must.Do(t, r.Prepare(t.Context(), m))
			const calls = 6 // fewer than the kept idle workers: the kernel reuses namespace numbers
			used, early := map[uint64]bool{}, 0
			for i := range calls {
				order := call(m, "x")
				order.Caller = user(fmt.Sprint("user:", i))
				began := time.Now()
				in := must.Get(r.Run(t.Context(), order))(t).Isolation.Namespaces["pid"]
				if used[in] {
					t.Error("a worker served two")
				}
				used[in] = true
				tierC.mu.Lock()
				if tierC.started[in].Before(began) {
					early++
				}
				tierC.mu.Unlock()
			}
			r.Close() // waits until every worker has exited
			if limits != (early > 0) {
				t.Errorf("%d of %d calls found a worker that stood ready", early, calls)
			}
			if limits && tierC.runs > calls+2 || !limits && tierC.runs != calls {
				t.Errorf("%d workers for %d calls", tierC.runs, calls)
			}
		})
	}
}
