package kek

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/core/reason"
)

// Status is how the keys are.
type Status struct {
	// Backend is where they are pinned, "" while none was made; ID is the current one,
	// "" while it cannot be asked for.
	Backend string
	ID      string
	// Older is how many older keys something may be wrapped by.
	Older int
	// Locked says that the keys cannot be used. Reason, Why and Remedy say why, and
	// what to do.
	Locked bool
	Reason reason.Code
	Why    string
	Remedy string
	// Leftover is how many keys that count no more could not be deleted yet.
	Leftover int
	// Since is since when it has been so, as far as this palyrad knows.
	Since time.Time
}

// String is a line for people: "secret service, locked: ...".
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

// Examine says how the keys of a gateway are, and makes and changes nothing.
func Examine(ctx context.Context, o Options) (s Status) {
	r := newRing(o)
	p, err := readPin(o.Dir, o.Gateway)
	if errors.Is(err, errNoPin) {
		return s
	}
	if err == nil {
		s.Backend, s.Older, s.Leftover = p.Backend, len(p.Keys)-1, len(p.Leftover)
		err = p.allows(o.Backend)
	}
	if err == nil {
		_, _, err = r.look(ctx)
	}
	if err == nil {
		s.ID = p.current().ID
	}
	return s.of(err)
}

// of adds why the keys cannot be used.
func (s Status) of(err error) Status {
	if err != nil {
		why := reason.Known(err, reason.VaultLocked)
		s.Locked, s.Reason, s.Why, s.Remedy = true, why.Code, why.Message, why.NextStep()
	}
	return s
}

// Status says how the keys are, for which it asks the backend as a call would.
func (r *Ring) Status(ctx context.Context) (s Status) {
	err := r.inTurn(ctx, func() error {
		err := r.load(ctx)
		s.Since = r.since
		if p := r.pin; p != nil {
			s.Backend, s.ID, s.Older, s.Leftover = p.Backend, p.current().ID, len(p.Keys)-1, len(p.Leftover)
		} else if p, unread := readPin(r.o.Dir, r.o.Gateway); unread == nil {
			s.Backend = p.Backend
		}
		return err
	})
	return s.of(err)
}
