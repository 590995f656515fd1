package kek

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/core/reason"
)

// Status is the state of the keys.
type Status struct {
	// Backend is the pinned backend, "" before the first key; ID is the current key, "" while it is
	// not available.
	Backend string
	ID      string
	// Older is the number of older keys that may still wrap data keys.
	Older int
	// Locked is true if the keys are not available. Reason, Why and Remedy explain it.
	Locked bool
	Reason reason.Code
	Why    string
	Remedy string
	// Leftover is how many unused keys could not be deleted yet.
	Leftover int
	// Since is the time of the last change of the state that this palyrad has observed.
	Since time.Time
}

// String returns a line for display: "secret service, locked: ...".
func (s Status) String() string {
	place := spoken(s.Backend)
	if s.Backend == "" {
		place = "no key yet"
	}
	if !s.Locked {
		return place
	}
	how := "unusable"
	if s.Reason == reason.VaultLocked {
		how = "locked"
	}
	return fmt.Sprintf("%s, %s: %s", place, how, s.Why)
}

// Examine returns the state of a gateway's keys without changing anything.
func Examine(ctx context.Context, o Options) (s Status) {
	p, err := readPin(o.Dir, o.Gateway)
	if errors.Is(err, errNoPin) {
		return s
	}
	if err == nil {
		s.Backend, s.Older, s.Leftover = p.Backend, len(p.Keys)-1, len(p.Leftover)
		err = p.allows(o.Backend)
	}
	if err == nil {
		_, _, err = newLocator(o).look(ctx)
	}
	if err == nil {
		s.ID = p.current().ID
	}
	return s.of(err)
}

// of adds the reason why the keys are not available.
func (s Status) of(err error) Status {
	if err != nil {
		why := reason.Known(err, reason.VaultLocked)
		s.Locked, s.Reason, s.Why, s.Remedy = true, why.Code, why.Message, why.NextStep()
	}
	return s
}

// Status returns the state of the keys. It queries the backend as a call would.
func (r *Ring) Status(ctx context.Context) (s Status) {
	err := r.inTurn(ctx, func() error {
		err := r.load(ctx)
		s.Since = r.since
		if p := r.set.pin; p != nil {
			s.Backend, s.ID, s.Older, s.Leftover = p.Backend, p.current().ID, len(p.Keys)-1, len(p.Leftover)
		} else if p, unread := readPin(r.at.Dir, r.at.Gateway); unread == nil {
			s.Backend = p.Backend
		}
		return err
	})
	return s.of(err)
}
