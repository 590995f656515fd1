package clitest

import (
	"strings"
)

// Watcher closes Seen once a text was written to it.
type Watcher struct {
	want string
	Text strings.Builder
	Seen chan struct{}
	hit  bool
}

// NewWatcher returns a watcher that waits for a text.
func NewWatcher(want string) *Watcher { return &Watcher{want: want, Seen: make(chan struct{})} }

// Write implements io.Writer.
func (w *Watcher) Write(p []byte) (int, error) {
	w.Text.Write(p)
	if !w.hit && strings.Contains(w.Text.String(), w.want) {
		w.hit = true
		close(w.Seen)
	}
	return len(p), nil
}
