//go:build linux

package e2e

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"
)

// output collects what a process writes and lets a test wait for a part of it.
type output struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// await waits until the output matches and returns the groups of the match;
// nil when ended is closed, or patience is over, before that.
func (o *output) await(re *regexp.Regexp, ended <-chan struct{}) []string {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		o.mu.Lock()
		match, changed := re.FindStringSubmatch(string(o.text)), o.changed
		o.mu.Unlock()
		if match != nil {
			return match
		}
		select {
		case <-changed:
		case <-ended:
			return re.FindStringSubmatch(o.String())
		case <-timeout.C:
			return nil
		}
	}
}

// eventually polls until ok, which returns what it saw for the message of a
// failure.
func eventually(t *testing.T, what string, within time.Duration, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, saw := ok()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s; last seen: %s", within, what, saw)
		case <-tick.C:
		}
	}
}
