package approval

import (
	"sync"
	"time"
)

// Limits are the desk's limits. A zero field means its default.
type Limits struct {
	// Timeout is how long a record waits if the ask sets no timeout (10 min); TimeoutMin (30 s)
	// and TimeoutMax (24 h) clamp the timeout of an ask.
	Timeout, TimeoutMin, TimeoutMax time.Duration
	// UseWithin is how long an allowed record may be consumed (5 min).
	UseWithin time.Duration
	// Claim is how long an answer is reserved for the call that received it before a repeated
	// identical call may have it (30 s).
	Claim time.Duration
	// Cooldown is how long a denied or expired ask is answered from memory (60 s); negative
	// disables it.
	Cooldown time.Duration
	// PendingPerRun (50) and PendingPerPrincipal (200) cap pending records; CreatedPerMinute
	// (20) caps new records per run, CreatedPerPrincipal (60) per principal over all its runs,
	// in the same time.
	PendingPerRun, PendingPerPrincipal, CreatedPerMinute, CreatedPerPrincipal int
	// GrantTTLMin (1 min), GrantTTLMax (7 d) and SessionGrant (8 h) bound the lifetime of
	// grants; SessionIdle (8 h) ends a session.
	GrantTTLMin, GrantTTLMax, SessionGrant, SessionIdle time.Duration
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{
		Timeout: 10 * time.Minute, TimeoutMin: 30 * time.Second, TimeoutMax: 24 * time.Hour,
		UseWithin: 5 * time.Minute, Claim: 30 * time.Second, Cooldown: time.Minute,
		PendingPerRun: 50, PendingPerPrincipal: 200, CreatedPerMinute: 20, CreatedPerPrincipal: 60,
		GrantTTLMin: time.Minute, GrantTTLMax: 7 * 24 * time.Hour,
		SessionGrant: 8 * time.Hour, SessionIdle: 8 * time.Hour,
	}
}

func (l Limits) withDefaults() Limits {
	def := DefaultLimits()
	for field, value := range map[*time.Duration]time.Duration{
		&l.Timeout: def.Timeout, &l.TimeoutMin: def.TimeoutMin, &l.TimeoutMax: def.TimeoutMax,
		&l.UseWithin: def.UseWithin, &l.Claim: def.Claim, &l.Cooldown: def.Cooldown,
		&l.GrantTTLMin: def.GrantTTLMin, &l.GrantTTLMax: def.GrantTTLMax,
		&l.SessionGrant: def.SessionGrant, &l.SessionIdle: def.SessionIdle,
	} {
		if *field < 0 && field != &l.Cooldown || *field == 0 {
			*field = value
		}
	}
	for field, value := range map[*int]int{
		&l.PendingPerRun: def.PendingPerRun, &l.PendingPerPrincipal: def.PendingPerPrincipal,
		&l.CreatedPerMinute: def.CreatedPerMinute, &l.CreatedPerPrincipal: def.CreatedPerPrincipal,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return l
}

// Clock measures the deadlines of approvals and grants. It follows the wall clock forward and
// never goes back: if the wall clock is set back, it continues by the monotonic clock. It
// starts no earlier than the last event of the journal. Example: a grant for an hour is given
// while the wall clock is a year ahead, and then the wall clock is corrected. By the wall clock
// the grant would last a year and an hour; by Clock it lasts an hour.
type Clock struct {
	wall func() time.Time
	// passed returns the elapsed monotonic time, which cannot be set.
	passed func() time.Duration

	mu   sync.Mutex
	at   time.Time
	mark time.Duration // the value of passed at that time
}

// NewClock returns a clock that starts at the later of from and the wall clock.
func NewClock(from time.Time, wall func() time.Time) *Clock {
	began := time.Now()
	return &Clock{wall: wall, passed: func() time.Duration { return time.Since(began) }, at: from}
}

// Now returns the time that deadlines are compared with.
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
