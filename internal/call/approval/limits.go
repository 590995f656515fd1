package approval

import "time"

// Limits are the desk's numbers. A zero field means its default.
type Limits struct {
	// Timeout is how long a record waits when the ask names no time (10 min);
	// TimeoutMin (30 s) and TimeoutMax (24 h) clamp what an ask names.
	Timeout, TimeoutMin, TimeoutMax time.Duration
	// UseWithin is how long an allowed record may be consumed (5 min).
	UseWithin time.Duration
	// Claim is how long an answer is kept for the call that received it
	// before a repeated identical call may have it (30 s).
	Claim time.Duration
	// Cooldown is how long a denied or expired ask is answered from memory
	// (60 s); negative means not at all.
	Cooldown time.Duration
	// PendingPerRun (50) and PendingPerPrincipal (200) cap pending records;
	// CreatedPerMinute (20) caps new records per run, CreatedPerPrincipal (60)
	// those per principal in the same time, over all runs that it names.
	PendingPerRun, PendingPerPrincipal, CreatedPerMinute, CreatedPerPrincipal int
	// GrantTTLMin (1 min), GrantTTLMax (7 d) and SessionGrant (8 h) bound the
	// life of grants; SessionIdle (8 h) ends a session.
	GrantTTLMin, GrantTTLMax, SessionGrant, SessionIdle time.Duration
}

// DefaultLimits returns the limits of the design.
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

func (l Limits) clampTimeout(asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = l.Timeout
	}
	return min(max(asked, l.TimeoutMin), l.TimeoutMax)
}
