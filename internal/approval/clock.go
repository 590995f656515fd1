package approval

import (
	"sync"
	"time"
)

// Clock is what deadlines of approvals and grants are measured by. It follows the
// wall clock forward and never goes back: when the wall clock is set back, it goes
// on by the monotonic clock. It starts no earlier than the last event of the
// journal. Example: a grant for an hour is given while the wall clock is a year
// ahead, and then the wall clock is set right. By the wall clock the grant would
// last a year and an hour; by Clock it lasts an hour.
type Clock struct {
	wall func() time.Time
	// passed is how much time has gone by; nobody can set it.
	passed func() time.Duration

	mu   sync.Mutex
	at   time.Time
	mark time.Duration // what passed said at that time
}

// NewClock returns a clock that starts at the later of from and the wall
// clock.
func NewClock(from time.Time, wall func() time.Time) *Clock {
	began := time.Now()
	return &Clock{wall: wall, passed: func() time.Duration { return time.Since(began) }, at: from}
}

// Now is the time that deadlines are compared with.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.passed()
	at := c.at.Add(passed - c.mark)
	if w := c.wall(); w.After(at) {
		at = w
	}
	c.at, c.mark = at, passed
	return at
}
