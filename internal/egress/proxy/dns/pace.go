package dns

import (
	"context"
	"sync"
	"time"
)

// How many questions a program may ask: so many at once, and so many a second
// after that. No resolver comes near; who floods the service is not to use up
// the processors of the machine.
const (
	mostAtOnce = 2000
	perSecond  = 2000
)

// rest is the pause after too many queries. It is long enough for sleeping to cost little.
const rest = 10 * time.Millisecond

// pace holds those up who ask too much.
type pace struct {
	mu sync.Mutex
	// paid is the time up to which queries are accounted for. Each query costs a fraction of a
	// second, and unused time is saved up only to mostAtOnce queries.
	paid time.Time
}

// wait returns when one more question may be answered, and false when ctx has
// ended. It sets no timer as long as there are not too many.
func (p *pace) wait(ctx context.Context) bool {
	for p.ahead() {
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
	return true
}

// ahead reports whether a query exceeds the pace; otherwise it is counted.
func (p *pace) ahead() bool {
	const each = time.Second / perSecond
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if saved := now.Add(-mostAtOnce * each); p.paid.Before(saved) {
		p.paid = saved
	}
	if p.paid.Add(each).After(now) {
		return true
	}
	p.paid = p.paid.Add(each)
	return false
}
