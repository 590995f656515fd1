package wasm

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
)

// onDemand returns an OnDemand with a sandbox, and the path of its worker, which does not exist.
func onDemand(t *testing.T) (d *OnDemand, worker string) {
	t.Helper()
	worker = filepath.Join(t.TempDir(), Worker)
	return NewOnDemand(Config{Worker: worker, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, func() sandbox.Runner { return broken{} }), worker
}

// TestOpensAgain: guests run after the worker was installed, without a new start of palyrad. Before
// the next attempt is due, calls are refused with the known problem and nothing is opened; the
// intervals are those of the sandbox's probe. Control: without the worker, the attempts fail.
func TestOpensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, worker := onDemand(t)
		defer d.Close()
		first := d.Ready()
		if reason.Of(first) != reason.SandboxUnavailable {
			t.Fatalf("without a worker: %v", first)
		}
		time.Sleep(5 * time.Second)
		if err := d.Ready(); err == nil {
			t.Fatal("it opened without a worker")
		}
		must.Do(t, os.WriteFile(worker, []byte("\x7fELF"), 0o755))
		time.Sleep(9 * time.Second)
		if err := d.Ready(); err == nil {
			t.Error("it was opened before the second interval of 10 s ended")
		}
		time.Sleep(time.Second)
		must.Do(t, d.Ready())
		must.Do(t, os.Remove(worker))
		must.Do(t, d.Ready()) // it stays open
		d.Close()
		if err := d.Ready(); reason.Of(err) != reason.Cancelled {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestShortageAtTheStart: a shortage of descriptors at the first attempt fails that call, with its
// next step, and the next call runs at once.
//
// Not parallel: it lowers the limit of open files of the process.
func TestShortageAtTheStart(t *testing.T) {
	d, worker := onDemand(t)
	defer d.Close()
	must.Do(t, os.WriteFile(worker, []byte("\x7fELF"), 0o755))
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}))
	err := d.Ready()
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if !sandbox.Passing(err) {
		t.Errorf("without descriptors: %v", err)
	}
	must.Do(t, d.Ready())
}

// TestTierCComesLater: Tier C that was not available at the start is used when it is.
func TestTierCComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, worker := onDemand(t)
		defer d.Close()
		must.Do(t, os.WriteFile(worker, []byte("\x7fELF"), 0o755))
		var tierC sandbox.Runner
		d.tierC = func() sandbox.Runner { return tierC }
		if err := d.Ready(); err == nil {
			t.Fatal("it opened without Tier C")
		}
		tierC = broken{}
		time.Sleep(5 * time.Second)
		must.Do(t, d.Ready())
	})
}
