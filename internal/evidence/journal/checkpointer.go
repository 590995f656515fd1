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

// Checkpointer signs checkpoints over the events of a store, journals them, and replaces the key
// that signs them. It is safe for concurrent use.
type Checkpointer struct {
	store   Store
	gateway string
	logger  *slog.Logger

	mu    sync.Mutex
	key   *Key
	keys  []SigningKey // the current signing key first
	known note.Verifiers
	last  int64 // sequence number of the newest checkpoint event, -1 unknown
}

// Keys returns the verifier keys in text form. The current signing key is the first.
func (c *Checkpointer) Keys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return texts(c.keys)
}

func texts(keys []SigningKey) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.Verifier
	}
	return out
}

func (c *Checkpointer) verifiers() note.Verifiers {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// Latest returns the newest journaled checkpoint; its Size is 0 if none exists.
func (c *Checkpointer) Latest(ctx context.Context) (Checkpoint, error) {
	cp, _, err := c.latest(ctx, c.verifiers())
	return cp, err
}

func (c *Checkpointer) latest(ctx context.Context, known note.Verifiers) (Checkpoint, int64, error) {
	page, err := c.store.Events(ctx, Filter{Code: string(event.Checkpoint), Newest: true, Limit: 1})
	if err != nil || len(page) == 0 {
		return Checkpoint{}, 0, err
	}
	cp, err := eventCheckpoint(&page[0], c.gateway, known)
	return cp, page[0].Seq, err
}

// Write journals a signed checkpoint over all events and returns it. If no event other than a
// checkpoint was journaled since the newest checkpoint, Write returns that one and writes
// nothing.
func (c *Checkpointer) Write(ctx context.Context) (Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(ctx)
}

// write is Write for a caller that holds c.mu.
func (c *Checkpointer) write(ctx context.Context) (Checkpoint, error) {
	newest, seq, err := c.latest(ctx, c.known)
	if err != nil {
		return Checkpoint{}, err
	}
	head := c.store.Head()
	if c.last = seq; head.Seq == seq {
		return newest, nil
	}
	cp, err := signSize(ctx, c.store, c.key, head.Seq)
	if err != nil {
		return Checkpoint{}, err
	}
	payload, err := canonical.Marshal(checkpointPayload{Note: cp.Note, Root: hex.EncodeToString(cp.Root[:]), Size: cp.Size})
	if err != nil {
		return Checkpoint{}, err
	}
	done, err := c.store.Append(ctx, event.Draft{Code: event.Checkpoint, Actor: Daemon, Payload: payload})
	if err != nil {
		return Checkpoint{}, err
	}
	c.last = done[0].Seq
	return cp, nil
}

// sign creates a checkpoint over at least size events without journaling it. The current key signs
// no size smaller than at its introduction.
func (c *Checkpointer) sign(ctx context.Context, size int64) (Checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return signSize(ctx, c.store, c.key, max(size, c.keys[0].First))
}

// covering returns a checkpoint that covers seq, and journals one if necessary. If seq is itself
// the checkpoint event at the end of the journal, the checkpoint that covers it is signed but not
// journaled. Otherwise every proof of the newest event would add another event.
func (c *Checkpointer) covering(ctx context.Context, seq int64) (Checkpoint, error) {
	cp, err := c.Write(ctx)
	if err != nil || cp.Size >= seq {
		return cp, err
	}
	return c.sign(ctx, seq)
}

// exportPoint returns the end of an export and the key that signs it. A key that is replaced
// meanwhile signs no size larger than at its replacement.
func (c *Checkpointer) exportPoint() (Head, *Key, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.Head(), c.key, texts(c.keys)
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
func (c *Checkpointer) Run(ctx context.Context) error {
	_, seq, err := c.latest(ctx, c.verifiers())
	if err != nil {
		return ended(ctx, err)
	}
	c.noteLast(seq)
	for {
		last := c.lastSeq()
		if err := c.store.Wait(ctx, last); err != nil {
			return ended(ctx, err)
		}
		if err := c.waitDue(ctx, last); err != nil {
			return ended(ctx, err)
		}
		if _, err := c.Write(ctx); err != nil && ctx.Err() == nil {
			c.logger.ErrorContext(ctx, "checkpoint not written", slog.String("error", err.Error()))
			pause(ctx, retryAfter)
		}
	}
}

// waitDue waits until the next checkpoint after the one at last is due.
func (c *Checkpointer) waitDue(ctx context.Context, last int64) error {
	due, cancel := context.WithTimeout(ctx, CheckpointAfter)
	defer cancel()
	err := c.store.Wait(due, last+CheckpointEvery-1)
	if errors.Is(err, context.DeadlineExceeded) {
		err = ctx.Err() // reaching the deadline is the expected end
	}
	return err
}

func (c *Checkpointer) noteLast(seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, seq)
}

func (c *Checkpointer) lastSeq() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
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
	if ctx.Err() == nil && reason.Of(err) != reason.ShuttingDown {
		return err
	}
	return nil
}
