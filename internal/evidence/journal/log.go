package journal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// The limits that determine when a checkpoint is created.
const (
	// CheckpointEvery is the maximum number of events between checkpoints.
	CheckpointEvery = 1000
	// CheckpointAfter is the maximum time from an event to its checkpoint.
	CheckpointAfter = 60 * time.Second
	// retryAfter is the pause after a failed attempt to write a checkpoint.
	retryAfter = 5 * time.Second
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
	store   Store
	gateway string
	logger  *slog.Logger

	mu    sync.Mutex
	key   *Key
	keys  []SigningKey // the current signing key first
	known note.Verifiers
	last  int64 // sequence number of the newest checkpoint event, -1 unknown
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
	return &Log{store: store, gateway: opts.Key.Name(), key: opts.Key, keys: keys, known: known, logger: logger, last: -1}, nil
}

// Gateway returns the gateway's id.
func (l *Log) Gateway() string { return l.gateway }

// Keys returns the verifier keys in text form. The current signing key is the first.
func (l *Log) Keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return texts(l.keys)
}

func texts(keys []SigningKey) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.Verifier
	}
	return out
}

func (l *Log) verifiers() note.Verifiers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

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
	return VerifyAll(ctx, l.store, l.Gateway(), l.verifiers(), remembered...)
}

// ParseCheckpoint parses and verifies a checkpoint of this gateway, signed by any of its keys.
func (l *Log) ParseCheckpoint(text string) (Checkpoint, error) {
	return ParseCheckpoint(text, l.Gateway(), l.verifiers())
}

// Latest returns the newest journaled checkpoint; its Size is 0 if none exists.
func (l *Log) Latest(ctx context.Context) (Checkpoint, error) {
	cp, _, err := l.latest(ctx, l.verifiers())
	return cp, err
}

func (l *Log) latest(ctx context.Context, known note.Verifiers) (Checkpoint, int64, error) {
	page, err := l.store.Events(ctx, Filter{Code: string(event.Checkpoint), Newest: true, Limit: 1})
	if err != nil || len(page) == 0 {
		return Checkpoint{}, 0, err
	}
	cp, err := eventCheckpoint(&page[0], l.Gateway(), known)
	return cp, page[0].Seq, err
}

// Checkpoint journals a signed checkpoint over all events and returns it. If no event other than a
// checkpoint was journaled since the newest checkpoint, Checkpoint returns that one and writes
// nothing.
func (l *Log) Checkpoint(ctx context.Context) (Checkpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkpoint(ctx)
}

// checkpoint is Checkpoint for a caller that holds l.mu.
func (l *Log) checkpoint(ctx context.Context) (Checkpoint, error) {
	newest, seq, err := l.latest(ctx, l.known)
	if err != nil {
		return Checkpoint{}, err
	}
	head := l.store.Head()
	if l.last = seq; head.Seq == seq {
		return newest, nil
	}
	cp, err := l.sign(ctx, l.key, head.Seq)
	if err != nil {
		return Checkpoint{}, err
	}
	payload, err := canonical.Marshal(checkpointPayload{Note: cp.Note, Root: hex.EncodeToString(cp.Root[:]), Size: cp.Size})
	if err != nil {
		return Checkpoint{}, err
	}
	done, err := l.store.Append(ctx, event.Draft{Code: event.Checkpoint, Actor: Daemon, Payload: payload})
	if err != nil {
		return Checkpoint{}, err
	}
	l.last = done[0].Seq
	return cp, nil
}

// sign creates a checkpoint over the first size events without journaling it.
func (l *Log) sign(ctx context.Context, key *Key, size int64) (Checkpoint, error) {
	return signSize(ctx, l.store, key, size)
}

func signSize(ctx context.Context, src Source, key *Key, size int64) (cp Checkpoint, err error) {
	err = src.Tree(ctx, size, func(t *Tree) error {
		root, err := t.Root()
		if err != nil {
			return err
		}
		cp, err = SignCheckpoint(key, size, root)
		return err
	})
	if err != nil {
		return Checkpoint{}, fmt.Errorf("making a checkpoint: %w", err)
	}
	return cp, nil
}

// Run creates checkpoints until ctx ends or the store closes. It creates one after
// CheckpointEvery events, or CheckpointAfter after an event that is not a checkpoint. An idle
// journal does not grow. Run retries a checkpoint that cannot be written, and returns an error
// only if the newest checkpoint cannot be read.
func (l *Log) Run(ctx context.Context) error {
	_, seq, err := l.latest(ctx, l.verifiers())
	if err != nil {
		return ended(ctx, err)
	}
	l.noteLast(seq)
	for {
		last := l.lastSeq()
		if err := l.store.Wait(ctx, last); err != nil {
			return ended(ctx, err)
		}
		if err := l.waitDue(ctx, last); err != nil {
			return ended(ctx, err)
		}
		if _, err := l.Checkpoint(ctx); err != nil && ctx.Err() == nil {
			l.logger.ErrorContext(ctx, "checkpoint not written", slog.String("error", err.Error()))
			pause(ctx, retryAfter)
		}
	}
}

// waitDue waits until the next checkpoint after the one at last is due.
func (l *Log) waitDue(ctx context.Context, last int64) error {
	due, cancel := context.WithTimeout(ctx, CheckpointAfter)
	defer cancel()
	err := l.store.Wait(due, last+CheckpointEvery-1)
	if errors.Is(err, context.DeadlineExceeded) {
		err = ctx.Err() // reaching the deadline is the expected end
	}
	return err
}

func (l *Log) noteLast(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last, seq)
}

func (l *Log) lastSeq() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ended converts the errors of a regular stop of a loop to nil.
func ended(ctx context.Context, err error) error {
	told := ctx.Err() != nil || reason.Of(err) == reason.ShuttingDown
	if told {
		return nil
	}
	return err
}
