package wasm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
)

// stepping is a sandbox whose programs end, with an error, when the test lets them.
type stepping struct {
	sandbox.Runner
	started chan string
	let     chan struct{}
}

func (s stepping) Run(_ context.Context, spec sandbox.Spec) (sandbox.Report, error) {
	s.started <- spec.Owner
	<-s.let
	return sandbox.Report{}, errors.New("it ended")
}

// steppingRunner returns a Runner in such a sandbox, with that many slots.
func steppingRunner(t *testing.T, workers int) (*Runner, stepping) {
	t.Helper()
	program := filepath.Join(t.TempDir(), Worker)
	must.Do(t, os.WriteFile(program, []byte("\x7fELF"), 0o755))
	s := stepping{started: make(chan string), let: make(chan struct{})}
	return must.Get(Open(Config{Sandbox: s, Worker: program, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Workers: workers}))(t), s
}

var (
	hoarder = limit.Who{Owner: "user:alice", Principal: "agent:hoarder"}
	other   = limit.Who{Owner: "user:bob", Principal: "user:bob"}
)

// numbered returns a call of the module with that number.
func numbered(i int, who limit.Who) guest.Call {
	text := fmt.Append(nil, "module ", i)
	return guest.Call{
		Caller: who, Module: guest.Module{Bytes: text, Digest: sha256.Sum256(text)},
		Limits: guest.Limits{Fuel: 1, MemoryBytes: 1 << 16, Wall: time.Second, Output: 1},
	}
}

// calls is the number of calls of the hoarder.
const calls = 50

// order makes the calls of the hoarder and then one of another caller, which waits in the queue or
// starts at once. It returns the callers of the workers in the order of their starts.
func order(t *testing.T, r *Runner, s stepping, queue *limit.Queue, waits bool) (starts []string) {
	t.Helper()
	var all sync.WaitGroup
	run := func(i int, who limit.Who) {
		all.Go(func() {
			if _, err := r.Run(context.Background(), numbered(i, who)); err == nil {
				t.Error("a worker that ended has a result")
			}
		})
	}
	run(0, hoarder)
	starts = append(starts, must.Receive(t, "the first start", s.started))
	waiting := func(n int) {
		must.Eventually(t, "the call waits", func() (bool, string) { return queue.Waiting() == n, fmt.Sprint(queue.Waiting()) })
	}
	for i := 1; i < calls; i++ {
		run(i, hoarder)
		waiting(i)
	}
	run(calls, other)
	if waits {
		waiting(calls)
	} else {
		starts = append(starts, must.Receive(t, "the start of the other caller", s.started))
	}
	for len(starts) <= calls {
		select {
		case owner := <-s.started:
			starts = append(starts, owner)
		case s.let <- struct{}{}:
		}
	}
	close(s.let)
	all.Wait()
	return starts
}

// TestGuestsTakeTurns: a guest of another caller starts in the next turn, although 50 guests of one
// caller came before it.
func TestGuestsTakeTurns(t *testing.T) {
	t.Parallel()
	r, s := steppingRunner(t, 1)
	defer r.Close()
	for i := range calls + 1 {
		c := &compiling{began: true, done: make(chan struct{}), file: must.Get(os.Open(os.DevNull))(t)}
		close(c.done)
		r.compiled[r.nameOf(numbered(i, other).Module)] = c
	}
	starts := order(t, r, s, r.slots, true)
	if at := slices.Index(starts, other.Principal); at < 0 || at > 2 || len(starts) != calls+1 {
		t.Errorf("the other caller's guest is start %d of %v", at, starts)
	}
}

// TestCompilersTakeTurns: one caller with 50 slow modules holds one of the two compilers. The
// module of another caller is compiled at once, while the first of them is still compiled.
func TestCompilersTakeTurns(t *testing.T) {
	t.Parallel()
	r, s := steppingRunner(t, 16)
	defer r.Close()
	starts := order(t, r, s, r.compiles, false)
	if at := slices.Index(starts, other.Principal); at != 1 {
		t.Errorf("the other caller's module is start %d of %v", at, starts)
	}
}

// TestStoredCodeNeedsNoTurn: while others hold both compilers, a module whose code is in the
// directory runs. Control: a module without code waits for its turn.
func TestStoredCodeNeedsNoTurn(t *testing.T) {
	t.Parallel()
	r, s := steppingRunner(t, 16)
	var all sync.WaitGroup
	defer func() {
		close(s.let)
		go func() {
			for range s.started {
			}
		}()
		r.Close()
		all.Wait()
		close(s.started)
	}()
	run := func(i int, who limit.Who) {
		all.Go(func() { _, _ = r.Run(context.Background(), numbered(i, who)) })
	}
	for i, who := range []limit.Who{hoarder, other} {
		run(i, who)
		must.Receive(t, "the start of a compiler", s.started)
	}
	third := limit.Who{Owner: "user:carol", Principal: "user:carol"}
	must.Do(t, r.codes.write(r.nameOf(numbered(2, third).Module), []byte("code")))
	run(2, third)
	if started := must.Receive(t, "the start of the guest", s.started); started != third.Principal || r.compiles.Waiting() != 0 {
		t.Errorf("a worker of %s started, and %d wait for a compiler", started, r.compiles.Waiting())
	}
	run(3, third)
	must.Eventually(t, "the control waits", func() (bool, string) { return r.compiles.Waiting() == 1, fmt.Sprint(r.compiles.Waiting()) })
}

// TestTurnsOfOneCaller is the control of both: the modules of one caller are compiled one at a
// time, in the order of the calls.
func TestTurnsOfOneCaller(t *testing.T) {
	t.Parallel()
	r, s := steppingRunner(t, 16)
	defer r.Close()
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { _, _ = r.Run(context.Background(), numbered(i, hoarder)) })
	}
	must.Receive(t, "the first start", s.started)
	must.Eventually(t, "the others wait", func() (bool, string) { return r.compiles.Waiting() == 2, fmt.Sprint(r.compiles.Waiting()) })
	select {
	case <-s.started:
		t.Error("one caller holds both compilers")
	default:
	}
	for range 2 {
		s.let <- struct{}{}
		must.Receive(t, "the next start", s.started)
	}
	s.let <- struct{}{}
	all.Wait()
	if len(r.compiled) != 0 {
		t.Errorf("%d failed compilations are kept", len(r.compiled))
	}
}

// TestWaitingCompilationIsForgotten: a module is forgotten when its last caller leaves before the compilation.
func TestWaitingCompilationIsForgotten(t *testing.T) {
	t.Parallel()
	r, s := steppingRunner(t, 16)
	defer r.Close()
	var all sync.WaitGroup
	all.Go(func() { _, _ = r.Run(context.Background(), numbered(0, hoarder)) })
	must.Receive(t, "the first start", s.started)
	ctx, leave := context.WithCancel(t.Context())
	for i := range 20 {
		all.Go(func() { _, _ = r.Run(ctx, numbered(1+i%10, hoarder)) })
	}
	must.Eventually(t, "they wait", func() (bool, string) { return r.compiles.Waiting() == 20, fmt.Sprint(r.compiles.Waiting()) })
	leave()
	must.Eventually(t, "only the first module is left", func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.compiled) == 1, fmt.Sprint(len(r.compiled))
	})
	s.let <- struct{}{}
	all.Wait()
}
