package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/core/event"
)

// Restored describes a restored store. Approvals in it may have been revoked since the backup.
type Restored struct {
	// Note is the reason for ending the approvals, and for the freeze.
	Note string
	// At is the time, in UTC.
	At time.Time
	// Event drafts an event for the same unit with the counts of ended items.
	Event func(RestoredEnds) (event.Draft, error)
}

// RestoredEnds counts the ended items.
type RestoredEnds struct{ Grants, Cancelled, Revoked int }

// EndRestored runs at the first start of a restored gateway, before any other use of the store.
// In one unit it freezes the gateway, ends all grants, cancels the pending records and revokes
// the allowed ones: no call can run by an earlier approval.
func EndRestored(ctx context.Context, store Store, r Restored) (ends RestoredEnds, err error) {
	records, err := openRecords(ctx, store)
	if err != nil {
		return ends, fmt.Errorf("reading open approvals: %w", err)
	}
	grants, err := openGrants(ctx, store)
	if err != nil {
		return ends, fmt.Errorf("reading grants: %w", err)
	}
	err = store.Update(ctx, func(tx Tx) error {
		ends = RestoredEnds{}
		if err := r.freeze(ctx, tx); err != nil {
			return err
		}
		for _, id := range grants {
			if _, err := endGrant(tx, id, r.Note, r.At); err != nil {
				return err
			}
			ends.Grants++
		}
		for _, rec := range records {
			if err := r.close(tx, rec, &ends); err != nil {
				return err
			}
		}
		drafted, err := r.Event(ends)
		if err != nil {
			return err
		}
		tx.Emit(drafted)
		return nil
	})
	return ends, err
}

// freeze sets the freeze with this reason, also if the gateway was frozen before.
func (r Restored) freeze(ctx context.Context, tx Tx) error {
	state := &FreezeState{By: hostOf(), Reason: r.Note, At: r.At}
	if err := tx.SetFreeze(state); err != nil {
		return err
	}
	return emitFreeze(ctx, tx, event.Frozen, state.By, *state)
}

func (r Restored) close(tx Tx, rec Record, ends *RestoredEnds) error {
	s := step{id: rec.ID, from: rec.State, version: rec.Version, at: r.At, actor: daemon, note: r.Note}
	if rec.State == Pending {
		s.to, s.events = Cancelled, stateEvents(event.Cancelled, Pending)
		ends.Cancelled++
	} else {
		s.to, s.events = Revoked, stateEvents(event.Revoked, Allowed)
		ends.Revoked++
	}
	_, err := transition(tx, s)
	if errors.Is(err, errLate) { // already expired
		s = expiry(rec, r.Note)
		s.at = r.At
		_, err = transition(tx, s)
	}
	return err
}

func openRecords(ctx context.Context, store Store) (all []Record, err error) {
	f := Filter{Traits: Traits{States: []State{Pending, Allowed}}, PageSize: MaxPage}
	for {
		page, next, err := store.Records(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if f.PageToken = next; next == "" {
			return all, nil
		}
	}
}

func openGrants(ctx context.Context, store Store) (ids []string, err error) {
	f := GrantFilter{Open: true, PageSize: MaxPage}
	for {
		page, next, err := store.Grants(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, g := range page {
			ids = append(ids, g.ID)
		}
		if f.PageToken = next; next == "" {
			return ids, nil
		}
	}
}
