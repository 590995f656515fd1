// Package process runs the programs under test and waits for their output and their results. The
// end-to-end, fault and attack tests use it.
package process

import (
	"regexp"
	"sync"
	"time"

	"palyra/internal/core/must"
)

// Output collects the output of a process, and allows a test to wait for a part of it.
type Output struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{}
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// Await waits until the output matches and returns the groups of the match. It returns nil if the
// output does not match by the time that ended is closed, or after must.Patience.
func (o *Output) Await(re *regexp.Regexp, ended <-chan struct{}) []string {
	timeout := time.NewTimer(must.Patience)
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
