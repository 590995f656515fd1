package dns

import (
	"context"
	"sync"
	"time"
)

// The rate limit for queries of a program: mostAtOnce in a burst, then perSecond. Ordinary
// resolvers stay far below it. It prevents a program that floods the service from using up the
// processors of the machine.
const (
	mostAtOnce = 2000
	perSecond  = 2000
)

// rest is the pause after too many queries. It is long enough for sleeping to cost little.
const rest = 10 * time.Millisecond

// pace delays queries above the rate limit.
type pace struct {
	mu sync.Mutex
	// paid is the time up to which queries are accounted for. Each query costs a fraction of a
	// second, and unused time is saved up only to mostAtOnce queries.
	paid time.Time
}

// wait returns true when one more query may be answered, and false when ctx has ended. It uses
// a timer only above the rate limit.
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
