//go:build linux && cgo

package wasm

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/jail/jailtest"
	engine "palyra/internal/exec/wasm"
	"palyra/internal/exec/wasm/guest"
	"palyra/test/wasm/wasmtest"
)

// TestBadWorkers: a worker that crashes, hangs or sends invalid messages ends its call with a
// clear error, and is killed.
func TestBadWorkers(t *testing.T) {
	t.Parallel()
	tierC := wasmtest.TierC(t)
	text := must.Get(os.ReadFile(must.Get(wasmtest.Build(jailtest.Dir(t), "palyra/test/wasm/bad"))(t)))(t)
	m := module(t, compiled(t, echo))
	for way, c := range map[string]struct {
		code reason.Code
		says string
	}{
		"crash":    {reason.ToolFailed, "did not finish the call"},
		"hang":     {reason.TimedOut, "was killed"},
		"garbage":  {reason.ToolFailed, "did not finish the call"},
		"huge":     {reason.ToolFailed, "did not finish the call"},
		"fuel":     {reason.ToolFailed, "did not finish the call"},
		"result":   {reason.ToolFailed, "did not finish the call"},
		"outcome":  {reason.ToolFailed, "did not finish the call"},
		"question": {reason.ToolFailed, "did not finish the call"},
		"numbers":  {reason.ToolFailed, "did not finish the call"},
	} {
		t.Run(way, func(t *testing.T) {
			worker := filepath.Join(jailtest.Dir(t), engine.Worker)
			must.Do(t, os.WriteFile(worker, append(bytes.Clone(text), []byte(" "+way)...), 0o755))
			var log bytes.Buffer
			r := must.Get(engine.Open(engine.Config{Sandbox: tierC, Worker: worker, Dir: jailtest.Dir(t), Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			asked := &answering{do: func(string, []int32, []byte, []byte) (guest.Answer, error) { return guest.Answer{}, nil }}
			order := call(m, "x")
			order.Limits.Wall, order.Host = 300*time.Millisecond, asked
			_, err := r.Run(t.Context(), order)
			if reason.Of(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s), want %q (%s)", err, reason.Of(err), c.says, c.code)
			}
			if len(asked.asked) > 0 {
				t.Errorf("its questions came to the host: %q", asked.asked)
			}
			r.Close() // waits until every worker has exited
		})
	}
}

// TestForgedCode: compiled code that was changed, truncated or replaced by another module's is
// not loaded. The module is compiled again, and the log has a warning.
func TestForgedCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, other := module(t, compiled(t, echo)), module(t, compiled(t, command("", "unreachable")))
	run := func(what string) {
		t.Helper()
		again := must.Get(engine.Open(engine.Config{Sandbox: w.tierC, Worker: wasmtest.Worker, Dir: w.dir, Log: slog.New(slog.NewTextHandler(w.log, nil))}))(t)
		defer again.Close()
		if r, err := again.Run(t.Context(), call(m, "well")); err != nil || string(r.Stdout.Head) != "well" {
			t.Errorf("%s: %q, %v", what, r.Stdout.Head, err)
		}
	}
	run("compiled")
	files := must.Get(filepath.Glob(filepath.Join(w.dir, "code", "*.code")))(t)
	if len(files) != 1 {
		t.Fatalf("kept: %q", files)
	}
	good := must.Get(os.ReadFile(files[0]))(t)
	run("kept")
	if w.log.Len() > 0 {
		t.Errorf("it logged %s", w.log)
	}
	_, err := w.Run(t.Context(), call(other, ""))
	if reason.Of(err) != reason.ToolFailed {
		t.Fatal(err)
	}
	var others []byte
	for _, name := range must.Get(filepath.Glob(filepath.Join(w.dir, "code", "*.code")))(t) {
		if name != files[0] {
			others = must.Get(os.ReadFile(name))(t)
		}
	}
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for what, text := range map[string][]byte{"changed": changed, "cut off": good[:len(good)-40], "empty": {}, "another's": others} {
		w.log.Reset()
		must.Do(t, os.WriteFile(files[0], text, 0o600))
		run(what)
		if !strings.Contains(w.log.String(), "is compiled again") {
			t.Errorf("%s: nothing was logged", what)
		}
		if now := must.Get(os.ReadFile(files[0]))(t); bytes.Equal(now, text) {
			t.Errorf("%s: it is still there", what)
		}
	}
}

// TestWorkersServeOnePrincipal: a worker is reused only by its principal and for the same
// module. It is not reused after a call that received data which must not outlive the call.
func TestWorkersServeOnePrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, other := module(t, compiled(t, echo)), module(t, compiled(t, strings.Replace(echo, "60000", "60001", 1)))
	// sandboxOf returns the process namespace of the sandbox in which a call ran.
	sandboxOf := func(owner string, m guest.Module, host guest.Host) uint64 {
		t.Helper()
		order := call(m, "x")
		order.Caller, order.Host = user(owner), host
		return must.Get(w.Run(t.Context(), order))(t).Isolation.Namespaces["pid"]
	}
	alice := sandboxOf("user:alice", m, nil)
	if alice == 0 || sandboxOf("user:alice", m, nil) != alice {
		t.Error("the control: a worker is not used again")
	}
	if sandboxOf("user:bob", m, nil) == alice {
		t.Error("bob's guest ran in alice's worker")
	}
	if sandboxOf("user:alice", other, nil) == alice {
		t.Error("another module ran in the same worker")
	}
	asks := module(t, compiled(t, command(handles+`"secret_read" (func $read (param i32) (result i32)))`, `(drop (call $read (i32.const 1)))`)))
	spent := &answering{do: func(string, []int32, []byte, []byte) (guest.Answer, error) { return guest.Answer{Spent: true}, nil }}
	kept := &answering{do: func(string, []int32, []byte, []byte) (guest.Answer, error) { return guest.Answer{}, nil }}
	if first := sandboxOf("user:alice", asks, kept); sandboxOf("user:alice", asks, kept) != first {
		t.Error("the control: a worker whose guest asked is not used again")
	}
	if first := sandboxOf("user:alice", asks, spent); sandboxOf("user:alice", asks, kept) == first {
		t.Error("the worker that got a secret was used again")
	}
}
