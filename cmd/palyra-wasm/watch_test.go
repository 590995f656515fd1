//go:build cgo && unix

package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: a call is interrupted at its own time limit, regardless of earlier calls and their
// limits; a call that ended in time is never interrupted.
func TestWatch(t *testing.T) {
	t.Parallel()
	const long, short = time.Minute, time.Second
	for name, c := range map[string]struct {
		calls func(w *watch)
		wants []time.Duration
	}{
		"ended in time": {func(w *watch) {
			w.begin(long)
			time.Sleep(short)
			w.end()
			time.Sleep(2 * long)
		}, nil},
		"too long": {func(w *watch) {
			w.begin(short)
			time.Sleep(long)
			w.end()
		}, []time.Duration{short}},
		"later than the timer": {func(w *watch) {
			w.begin(long)
			time.Sleep(long - 1)
			w.end()
			w.begin(long)
			time.Sleep(2 * long)
			w.end()
		}, []time.Duration{2*long - 1}},
		"earlier than the timer": {func(w *watch) {
			w.begin(long)
			w.end()
			w.begin(short)
			time.Sleep(long)
			w.end()
			time.Sleep(long)
		}, []time.Duration{short}},
		"after a pause": {func(w *watch) {
			w.begin(long)
			w.end()
			time.Sleep(2 * long)
			w.begin(short)
			time.Sleep(long)
			w.end()
		}, []time.Duration{2*long + short}},
		"each anew": {func(w *watch) {
			for range 3 {
				w.begin(short)
				time.Sleep(2 * short)
				w.end()
			}
		}, []time.Duration{short, 3 * short, 5 * short}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []time.Duration
				c.calls(&watch{interrupt: func() { got = append(got, time.Since(began)) }})
				synctest.Wait()
				if !slices.Equal(got, c.wants) {
					t.Errorf("interrupted at %v, want %v", got, c.wants)
				}
			})
		})
	}
}
