//go:build linux

package attack

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
)

// TestEveryRunIsConfined starts many sandboxes at once while the garbage collector runs
// continuously. Landlock, seccomp and no_new_privs belong to one thread. A runtime that moved a
// goroutine between two steps would start a program without them (mcpproxy-go#932).
//
// Not parallel: it sets the garbage collection percentage of the process.
func TestEveryRunIsConfined(t *testing.T) {
	runs := 100
	if needs.Long(30 * time.Second) {
		runs = 1000
	}
	const workers = 4
	b := newBoundary(t)
	pressure(t)
	// All runs share one scene, because only the number of runs matters.
	var left atomic.Int64
	left.Store(int64(runs))
	confirm := func(without []string) (confirmed int, failures []string) {
		left.Store(int64(runs))
		r := b.runner(t, without)
		var mu sync.Mutex
		var all sync.WaitGroup
		for range workers {
			c := newScene(t)
			c.program("true")
			all.Go(func() {
				for left.Add(-1) >= 0 {
					report, err := r.Run(t.Context(), c.spec)
					if report.Layer != nil {
						_ = report.Layer.Close()
					}
					problem := unconfined(report, err)
					mu.Lock()
					if problem == "" {
						confirmed++
					} else {
						failures = append(failures, problem)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return confirmed, failures
	}
	o := outcome{denied, failed}
	confirmed, failures := confirm(nil)
	t.Logf("%d of %d runs confirmed", confirmed, runs)
	if confirmed != runs || len(failures) > 0 {
		o.Attack = escaped
		t.Errorf("ESCAPE: %d of %d runs are confirmed; %.2000s", confirmed, runs, strings.Join(failures, "\n"))
	}
	runs = 8
	if confirmed, failures := confirm(layers(seccomp)); confirmed == 0 && len(failures) == runs {
		o.Control = succeeded
	} else {
		t.Errorf("without seccomp %d of %d runs are confirmed", confirmed, runs)
	}
	results.record("GW-06 confinement under load", o)
}

// unconfined returns the first restriction that the report of a run does not confirm, or "" if
// all are confirmed.
func unconfined(r sandbox.Report, err error) string {
	i := r.Isolation
	switch {
	case err != nil:
		return err.Error()
	case r.ExitCode == nil || *r.ExitCode != 0:
		return fmt.Sprintf("the program ended with %v %s", r.ExitCode, r.Signal)
	case i.SeccompMode != 2 || !i.NoNewPrivs || i.LandlockABI == 0:
		return fmt.Sprintf("seccomp %d, no_new_privs %t, Landlock %d", i.SeccompMode, i.NoNewPrivs, i.LandlockABI)
	case !slices.Contains(r.Applied, seccomp) || !slices.Contains(r.Applied, landlock):
		// An older filter of the process sets the same mode, so the mode alone proves nothing.
		return fmt.Sprintf("proved are %v", r.Applied)
	case strings.Trim(i.CapEff+i.CapPrm+i.CapBnd, "0") != "" || i.CapEff == "":
		return fmt.Sprintf("capabilities %s %s %s", i.CapEff, i.CapPrm, i.CapBnd)
	}
	return ""
}

// pressure keeps the garbage collector busy until the test ends.
func pressure(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(1)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for kept := [64][]byte{}; ; runtime.Gosched() {
			for i := range kept {
				kept[i] = make([]byte, 16<<10)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		debug.SetGCPercent(was)
	})
}
