package wasm

import (
	"log/slog"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/wasm/guest"
)

// still returns an idle worker that lasts until it is ended.
func still(t *testing.T, owner string, since time.Duration) *worker {
	t.Helper()
	ours, theirs, err := sockets()
	must.Do(t, err)
	t.Cleanup(func() { theirs.Close() })
	w := &worker{conn: ours, ended: make(chan struct{}), owner: owner, may: running(owner, guest.Limits{MemoryBytes: 100, Wall: time.Second}), idle: time.Now().Add(-since)}
	w.stop = func() { close(w.ended) }
	return w
}

// TestIdleWorkersEnd: workers that were idle for too long are ended, whether or not they have
// an owner. The other workers stay.
func TestIdleWorkersEnd(t *testing.T) {
	t.Parallel()
	r := &Runner{use: Config{Workers: 3, Log: slog.New(slog.DiscardHandler)}, closing: make(chan struct{})}
	old, spare, fresh := still(t, "user:alice", idleTime), still(t, "", idleTime+time.Second), still(t, "user:alice", 0)
	r.idle = []*worker{old, spare, fresh}
	r.sweep()
	if old.alive() || spare.alive() || !fresh.alive() || len(r.idle) != 1 {
		t.Errorf("ended: old %t, ready %t, fresh %t; kept %d", !old.alive(), !spare.alive(), !fresh.alive(), len(r.idle))
	}
	for range r.use.Workers + spares {
		r.keep(still(t, "user:bob", 0))
	}
	r.Close()
	if fresh.alive() || len(r.idle) > 0 {
		t.Error("the longest idle one was kept beyond the bound, or Close left one")
	}
}

// TestRoom: a worker does not receive a call whose limits exceed its sandbox's.
func TestRoom(t *testing.T) {
	t.Parallel()
	w := still(t, "", 0)
	for name, c := range map[string]struct {
		limits guest.Limits
		room   bool
	}{
		"as much":     {guest.Limits{MemoryBytes: 100, Wall: time.Second}, true},
		"less":        {guest.Limits{MemoryBytes: 10, Wall: time.Millisecond}, true},
		"more memory": {guest.Limits{MemoryBytes: 101, Wall: time.Second}, false},
		"more time":   {guest.Limits{MemoryBytes: 100, Wall: time.Hour}, false},
	} {
		if w.room(c.limits) != c.room {
			t.Errorf("%s: room is %t", name, !c.room)
		}
	}
}
