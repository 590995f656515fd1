//go:build linux && cgo

package wasm

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/test/wasm/wasmtest"
)

// counting is a Tier C that counts the reasons for starting workers.
type counting struct {
	sandbox.Runner
	mu      sync.Mutex
	started map[string]int
	// hold delays the start of compiling workers until it is closed.
	hold chan struct{}
}

func (c *counting) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	c.mu.Lock()
	c.started[s.Argv[1]]++
	c.mu.Unlock()
	if s.Argv[1] == "compile" {
		<-c.hold
	}
	return c.Runner.Run(ctx, s)
}

func (c *counting) count(word string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started[word]
}

// TestCompiledOnce: all first callers of a module wait for the one worker that compiles it,
// even if the first caller has left. Later callers do not wait, in this run of palyrad or the
// next. An invalid module is compiled once in each run.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	tierC := &counting{Runner: wasmtest.TierC(t), started: map[string]int{}, hold: make(chan struct{})}
	config := engine.Config{Sandbox: tierC, Worker: wasmtest.Worker, Dir: jailtest.Dir(t), Log: slog.New(slog.DiscardHandler)}
	r := must.Get(engine.Open(config))(t)
	m := module(t, compiled(t, echo))
	first, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- r.Prepare(first, m) }()
	leave()
	if err := <-left; reason.Of(err) != reason.Cancelled {
		t.Errorf("who left has %v", err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := r.Run(t.Context(), call(m, "well")); err != nil || string(got.Stdout.Head) != "well" {
				t.Errorf("%q, %v", got.Stdout.Head, err)
			}
		})
	}
	group.Go(func() { must.Check(t, r.Prepare(t.Context(), m)) })
	close(tierC.hold)
	group.Wait()
	must.Do(t, r.Prepare(t.Context(), m))
	r.Close()
	if n := tierC.count("compile"); n != 1 {
		t.Errorf("it was compiled %d times", n)
	}
	again := must.Get(engine.Open(config))(t)
	defer again.Close()
	must.Do(t, again.Prepare(t.Context(), m))
	must.Get(again.Run(t.Context(), call(m, "")))(t)
	if n := tierC.count("compile"); n != 1 {
		t.Errorf("after a new start it was compiled again, %d times", n)
	}
	other := module(t, compiled(t, strings.Replace(echo, "60000", "60001", 1)))
	must.Do(t, again.Prepare(t.Context(), other))
	if n := tierC.count("compile"); n != 2 {
		t.Errorf("the control: another module is not compiled, %d times in all", n)
	}
	// An invalid module is not compiled again either.
	bad := module(t, invalid(t))
	for range 2 {
		if err := again.Prepare(t.Context(), bad); reason.Of(err) != reason.InvalidInput {
			t.Errorf("what does not compile has %v", err)
		}
	}
	if n := tierC.count("compile"); n != 3 {
		t.Errorf("what does not compile was tried until there were %d compilers", n)
	}
}
