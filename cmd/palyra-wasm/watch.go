//go:build cgo && unix

package main

import (
	"sync"
	"time"
)

// watch interrupts calls that exceed their time limit. Its timer outlives a call that ended in
// time, and then only checks whether another call is due. Setting a timer for each call would
// take longer than most calls.
type watch struct {
	interrupt func()

	mu sync.Mutex
	// due is the time at which the call in progress is interrupted, zero between calls.
	due time.Time
	// timer fires at rings, if that is not zero.
	timer *time.Timer
	rings time.Time
}

// begin starts the time limit of a call.
func (w *watch) begin(most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Now().Add(most)
	if w.rings.IsZero() || w.due.Before(w.rings) {
		w.set(most)
	}
}

// end ends the time limit of the call.
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
