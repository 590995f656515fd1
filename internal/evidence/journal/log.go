package journal

import (
	"context"
	"fmt"
	"log/slog"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Options configure a Log.
type Options struct {
	// Key signs checkpoints and exports; its name is the gateway's id.
	Key *Key
	// Keys are Key and the earlier keys, each with the sizes that it signs. If Keys is empty, Key
	// signs all sizes.
	Keys []SigningKey
	// Logger receives failures to create a checkpoint; nil discards them.
	Logger *slog.Logger
}

// Log is the journal over a Store. It is safe for concurrent use.
type Log struct {
	Checkpoints *Checkpointer
	store       Store
	gateway     string
}

// New returns the journal over a store.
func New(store Store, opts Options) (*Log, error) {
	keys := opts.Keys
	if len(keys) == 0 {
		keys = []SigningKey{{Verifier: opts.Key.Verifier()}}
	}
	if keys[0].Verifier != opts.Key.Verifier() || keys[0].Last != 0 {
		return nil, fmt.Errorf("opening the journal: the key that signs is not the first of its keys, or was replaced")
	}
	known, err := NewSigners(keys...)
	if err != nil {
		return nil, err
	}
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Checkpointer{store: store, gateway: opts.Key.Name(), key: opts.Key, keys: keys, known: known, logger: logger, last: -1}
	return &Log{Checkpoints: c, store: store, gateway: c.gateway}, nil
}

// Gateway returns the gateway's id.
func (l *Log) Gateway() string { return l.gateway }

// Head returns the newest durable head.
func (l *Log) Head() Head { return l.store.Head() }

// Append appends events and returns them when they are durable. If an append fails, the operation
// that requested it MUST fail.
func (l *Log) Append(ctx context.Context, drafts ...event.Draft) ([]Event, error) {
	return l.store.Append(ctx, drafts...)
}

// Record converts a payload to canonical form and appends it as one event.
func (l *Log) Record(ctx context.Context, code event.Code, actor, subject string, payload any) error {
	draft, err := event.DraftOf(code, actor, subject, payload)
	if err != nil {
		return err
	}
	_, err = l.Append(ctx, draft)
	return err
}

// Get returns one event, or reason.NotFound.
func (l *Log) Get(ctx context.Context, seq int64) (Event, error) {
	if seq < 1 {
		return Event{}, reason.Errorf(reason.InvalidInput, "sequence numbers begin at 1, got %d", seq)
	}
	page, err := l.store.Events(ctx, Filter{After: seq - 1, UpTo: seq, Limit: 1})
	if err != nil {
		return Event{}, err
	}
	if len(page) == 0 {
		return Event{}, reason.Errorf(reason.NotFound, "event %d does not exist", seq)
	}
	return page[0], nil
}

// List returns a page of the events that match the filter.
func (l *Log) List(ctx context.Context, f Filter) ([]Event, error) { return l.store.Events(ctx, f) }

// Follow calls fn for every event after a sequence number, in order, without gaps or
// duplicates, and continues with new events as they become durable. It returns the error of fn
// or ctx, or reason.ShuttingDown when the store closes.
func (l *Log) Follow(ctx context.Context, after int64, fn func(Event) error) error {
	for {
		if err := l.Wait(ctx, after); err != nil {
			return err
		}
		var err error
		if after, err = l.CatchUp(ctx, after, fn); err != nil {
			return err
		}
	}
}

// Wait returns nil when the head is past a sequence number. It returns the error of ctx, or
// reason.ShuttingDown when the store closes. A caller that tolerates delay should wait for
// several events at a time, because each wake-up delays the call that caused it.
func (l *Log) Wait(ctx context.Context, past int64) error { return l.store.Wait(ctx, past) }

// CatchUp calls fn for every event after a sequence number that is durable now, in order,
// without gaps or duplicates. It returns the number of the last event that fn accepted. It ends
// early with the error of fn or ctx.
func (l *Log) CatchUp(ctx context.Context, after int64, fn func(Event) error) (int64, error) {
	for head := l.Head().Seq; after < head; {
		page, err := l.page(ctx, after)
		if err != nil {
			return after, err
		}
		for _, e := range page {
			if e.Seq != after+1 {
				return after, corrupt(after+1, "the event is missing")
			}
			if err := fn(e); err != nil {
				return after, err
			}
			after = e.Seq
		}
		if err := ctx.Err(); err != nil {
			return after, err
		}
	}
	return after, nil
}

// page returns events after a sequence number. The head MUST be past that number, so that at
// least one event exists.
func (l *Log) page(ctx context.Context, after int64) ([]Event, error) {
	if page, ok := l.store.Recent(after); ok && len(page) > 0 {
		return page, nil
	}
	page, err := l.store.Events(ctx, Filter{After: after})
	if err == nil && len(page) == 0 {
		err = corrupt(after+1, "the event is missing")
	}
	return page, err
}

// Verify verifies every event and link of the chain from a sequence number to the head.
// VerifyFull also verifies the checkpoints and the tree.
func (l *Log) Verify(ctx context.Context, from int64) error {
	return verifyChain(ctx, l.store, max(from-1, 0), l.store.Head(), nil)
}

// VerifyFull calls VerifyAll for this journal with its own keys.
func (l *Log) VerifyFull(ctx context.Context, remembered ...Checkpoint) (Summary, error) {
	return VerifyAll(ctx, l.store, l.Gateway(), l.Checkpoints.verifiers(), remembered...)
}
