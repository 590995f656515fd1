package journal

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Proof shows that an event is in the tree of a signed checkpoint, by an audit path (RFC 6962,
// 2.1.1). VerifyProof needs only the proof and the public key.
type Proof struct {
	Event      Event
	Checkpoint Checkpoint
	// Hashes is the audit path from the leaf to the root.
	Hashes []tlog.Hash
}

// Consistency shows that a newer tree contains all events of an older one in the same places (RFC
// 6962 consistency proof).
type Consistency struct {
	Old int64
	New int64
	// Hashes is empty if Old is 0 or both sizes are equal.
	Hashes []tlog.Hash
}

// Prove proves one event against the newest checkpoint. If no checkpoint covers the event, Prove
// first journals one.
func (l *Log) Prove(ctx context.Context, seq int64) (Proof, error) {
	e, err := l.Get(ctx, seq)
	if err != nil {
		return Proof{}, err
	}
	cp, err := l.Checkpoints.Latest(ctx)
	if err == nil && cp.Size < seq {
		cp, err = l.Checkpoints.covering(ctx, seq)
	}
	if err != nil {
		return Proof{}, err
	}
	p := Proof{Event: e, Checkpoint: cp}
	err = l.store.Tree(ctx, cp.Size, func(t *Tree) error {
		p.Hashes, err = tlog.ProveRecord(cp.Size, seq-1, t)
		return err
	})
	if err != nil {
		return Proof{}, fmt.Errorf("proving event %d: %w", seq, err)
	}
	return p, nil
}

// VerifyProof verifies the event's own digests, the checkpoint's signature and the audit path. An
// empty gateway accepts every gateway of the known keys.
func VerifyProof(p Proof, gateway string, known note.Verifiers) error {
	if err := p.Event.CheckSelf(); err != nil {
		return err
	}
	cp, err := ParseCheckpoint(p.Checkpoint.Note, gateway, known)
	if err != nil {
		return corrupt(p.Event.Seq, err.Error())
	}
	if p.Event.Seq > cp.Size {
		return corrupt(p.Event.Seq, fmt.Sprintf("the checkpoint covers %s only", text.Plural(cp.Size, "event")))
	}
	if err := tlog.CheckRecord(p.Hashes, cp.Size, cp.Root, p.Event.Seq-1, leaf(p.Event.Hash)); err != nil {
		return corrupt(p.Event.Seq, "the audit path does not lead to the checkpoint's root")
	}
	return nil
}

// Consistency proves that the tree of size newer extends the tree of size older.
func (l *Log) Consistency(ctx context.Context, older, newer int64) (Consistency, error) {
	c := Consistency{Old: older, New: newer}
	head := l.store.Head().Seq
	switch {
	case older < 0 || newer < older:
		return c, reason.Errorf(reason.InvalidInput, "a consistency proof goes from a smaller to a larger size, not from %d to %d", older, newer)
	case newer > head:
		return c, reason.Errorf(reason.NotFound, "the journal has %s, not %d", text.Plural(head, "event"), newer).
			WithRemedy("If a signed checkpoint has this size, the journal was rolled back: run `palyra journal verify`.")
	case older == 0 || older == newer:
		return c, nil
	}
	err := l.store.Tree(ctx, newer, func(t *Tree) (err error) {
		c.Hashes, err = tlog.ProveTree(newer, older, t)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("proving consistency: %w", err)
	}
	return c, nil
}

// Extending returns the newest checkpoint with the proof that it extends a checkpoint over
// known events. If no journaled checkpoint covers these events, Extending signs one without
// journaling it. If the journal has fewer events, no proof exists.
func (l *Log) Extending(ctx context.Context, known int64) (cp Checkpoint, c Consistency, err error) {
	if cp, err = l.Checkpoints.Latest(ctx); err != nil {
		return cp, c, err
	}
	if known > cp.Size && known <= l.store.Head().Seq {
		cp, err = l.Checkpoints.sign(ctx, known)
	}
	if err != nil || known > cp.Size {
		return cp, c, err
	}
	c, err = l.Consistency(ctx, known, cp.Size)
	return cp, c, err
}

// VerifyConsistency verifies that the newer of two verified checkpoints extends the older one.
// If the newer one is smaller, the journal was rolled back.
func VerifyConsistency(older, newer Checkpoint, hashes []tlog.Hash) error {
	switch {
	case older.Origin != newer.Origin:
		return fmt.Errorf("the checkpoints are of gateways %q and %q", older.Origin, newer.Origin)
	case newer.Size < older.Size:
		return rolledBack(older, newer.Size)
	case older.Size == 0:
		return nil
	case newer.Size == older.Size && newer.Root == older.Root:
		return nil
	case newer.Size > older.Size && tlog.CheckTree(hashes, newer.Size, newer.Root, older.Size, older.Root) == nil:
		return nil
	}
	return corrupt(1, fmt.Sprintf("the journal was forked: its events 1 to %d differ from the events that the older checkpoint covers", older.Size))
}
