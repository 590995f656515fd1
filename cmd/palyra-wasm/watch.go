//go:build cgo && unix

package main

import (
	"sync"
	"time"
)

// watch interrupts calls that take too long. Its timer outlives a call that ended in time,
// and then only looks whether another one is due: to set a timer for each call costs more
// than most calls do.
type watch struct {
	interrupt func()

	mu sync.Mutex
	// due is when the call in progress is interrupted, zero between calls.
	due time.Time
	// timer rings at rings, if that is not zero.
	timer *time.Timer
	rings time.Time
}

// begin says that a call began, which may take so long.
func (w *watch) begin(most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(most)
	if w.rings.IsZero() || w.due.Before(w.rings) {
		w.set(most)
	}
}

// end says that the call ended. It is not interrupted any more.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
}

func (w *watch) set(wait time.Duration) {
	w.rings = w.due
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, w.ring)
		return
	}
	w.timer.Reset(wait)
}

func (w *watch) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rings = time.Time{}
	if w.due.IsZero() {
		return
	}
	if left := time.Until(w.due); left > 0 {
		w.set(left)
		return
	}
	w.interrupt()
}
