package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/event"
	"palyra/internal/core/text"
)

// Summary describes the coverage of a verification.
type Summary struct {
	// Gateway is the gateway's id.
	Gateway string
	// First and Last are the first and last verified sequence numbers; 0 if no event was verified.
	First int64
	Last  int64
	// Events, Checkpoints and Erased count events, checkpoints among them, and events whose
	// payload was erased.
	Events      int64
	Checkpoints int64
	Erased      int64
	// Rotations counts the replacements of the signing key.
	Rotations int64
	// Signed is the newest verified checkpoint; its Size is 0 if none exists. Events after it
	// are chained but not signed yet.
	Signed Checkpoint
	// Head is the end of the chain.
	Head Head
	// Keys are the keys that verified the checkpoints, with the sizes that they sign according
	// to the caller and the journal's rotations. It is empty if the caller gave keys without
	// sizes.
	Keys []SigningKey
	// Key is the verifier key that signed an export.
	Key string
	// KeyPinned is true if the caller supplied the key. If the key came from the file itself, the
	// signature proves that the file is undamaged, but not which gateway wrote it.
	KeyPinned bool
}

// checkpointPayload is the payload of event.Checkpoint.
type checkpointPayload struct {
	Note string `json:"note"`
	Root string `json:"root"`
	Size int64  `json:"size"`
}

// VerifyTail verifies the end of a journal: the newest checkpoint's signature, its root in the
// stored tree, and the chain from that checkpoint to the head. Its cost does not grow with the
// journal. Errors about the data are CorruptErrors.
func VerifyTail(ctx context.Context, src Source, gateway string, known note.Verifiers) error {
	last, err := src.Events(ctx, Filter{Code: string(event.Checkpoint), Newest: true, Limit: 1})
	if err != nil {
		return fmt.Errorf("reading the last checkpoint: %w", err)
	}
	var covered int64
	if len(last) > 0 {
		cp, err := eventCheckpoint(&last[0], gateway, known)
		if err != nil {
			return err
		}
		if err := checkStoredRoot(ctx, src, cp); err != nil {
			return locate(ctx, src, gateway, known, err)
		}
		covered = cp.Size
	}
	// The last covered event is also verified, because the next one links to it.
	return verifyChain(ctx, src, max(covered-1, 0), src.Head(), nil)
}

// locate finds the first bad event after the tree check has failed.
func locate(ctx context.Context, src Source, gateway string, known note.Verifiers, found error) error {
	var exact *CorruptError
	if _, err := VerifyAll(ctx, src, gateway, known); errors.As(err, &exact) {
		return exact
	}
	return found
}

// VerifyAll verifies a whole journal: every event and link, every checkpoint's signature and
// root, and the stored tiles. It also verifies that the journal still contains the checkpoints
// in remembered. Errors about the data are CorruptErrors with the first bad sequence number.
func VerifyAll(ctx context.Context, src Source, gateway string, known note.Verifiers, remembered ...Checkpoint) (Summary, error) {
	head := src.Head()
	w := walker{gateway: gateway, signers: walkSigners(known, 0), sum: Summary{Gateway: gateway}, remembered: remembered}
	edge := &Edge{}
	var tiles []Tile
	err := verifyChain(ctx, src, 0, head, func(e link) error {
		tiles = append(tiles, edge.Append(e.head.Hash)...)
		if err := w.step(e); err != nil {
			return err
		}
		if len(tiles) < 64 {
			return nil
		}
		err := checkTiles(ctx, src, head.Seq, tiles)
		tiles = tiles[:0]
		return err
	})
	if err == nil {
		err = checkTiles(ctx, src, head.Seq, tiles)
	}
	if err == nil {
		err = w.end(true)
	}
	return w.sum, err
}

func checkTiles(ctx context.Context, src Source, size int64, tiles []Tile) error {
	if len(tiles) == 0 {
		return nil
	}
	return src.Tree(ctx, size, func(t *Tree) error {
		for _, want := range tiles {
			got, err := t.readTile(want.Level, want.N)
			if err != nil {
				return err
			}
			roots, err := t.tiles.TileRoots(want.Level, want.N, want.N+1)
			if err != nil {
				return err
			}
			if !bytes.Equal(flatten(got), want.Hashes) || len(roots) != 1 || roots[0] != want.Root {
				return corrupt(firstOf(want.Level, want.N), fmt.Sprintf("the stored Merkle tile %d of level %d is not that of the events", want.N, want.Level))
			}
		}
		return nil
	})
}

// walker follows the events of a chain that is already verified, and verifies the checkpoints in
// it.
type walker struct {
	gateway string
	signers *Signers
	// admit is called for a key that a rotation introduces and that is not among the signers. A
	// nil admit accepts every key.
	admit      func(Rotation) error
	roots      roots
	signed     int64 // the newest size with a signed root
	sum        Summary
	remembered []Checkpoint
}

func (w *walker) step(e link) error {
	seq := e.head.Seq
	w.roots.push(e.head.Hash)
	if w.sum.First == 0 {
		w.sum.First = seq
	}
	w.sum.Last, w.sum.Head = seq, e.head
	w.sum.Events++
	if e.erased {
		w.sum.Erased++
	}
	for _, cp := range w.remembered {
		if cp.Size == seq {
			if err := w.checkRoot(cp, seq); err != nil {
				return err
			}
		}
	}
	switch {
	case e.signed == nil:
		return nil
	case e.signed.Code == event.KeyRotated:
		return w.rotation(e.signed)
	}
	return w.checkpoint(e.signed)
}

func (w *walker) checkpoint(e *Event) error {
	cp, err := eventCheckpoint(e, w.gateway, w.signers)
	if err != nil {
		return err
	}
	w.sum.Checkpoints++
	if cp.Size < w.sum.Signed.Size {
		return corrupt(e.Seq, fmt.Sprintf("the checkpoint covers %s, the one before it %d: it was rolled back", text.Plural(cp.Size, "event"), w.sum.Signed.Size))
	}
	if cp.Size >= w.roots.base.size {
		if err := w.checkRoot(cp, e.Seq); err != nil {
			return err
		}
		w.roots.settle(cp.Size)
		w.signed = cp.Size
	}
	w.sum.Signed = cp
	return nil
}

// checkRoot compares a verified note with the root over the events. The events up to the last
// valid checkpoint are proven. The error therefore gives the event after that checkpoint as the
// first one that may be bad.
func (w *walker) checkRoot(cp Checkpoint, seq int64) error {
	root, err := w.roots.at(cp.Size)
	if err != nil {
		return corrupt(seq, "the checkpoint cannot be checked: "+err.Error())
	}
	if root != cp.Root {
		return corrupt(w.signed+1, fmt.Sprintf("the events %d to %d differ from the events that a signed checkpoint covers", w.signed+1, cp.Size))
	}
	return nil
}

// end fills the keys of the summary, and reports remembered checkpoints that cover more events than
// the chain has.
func (w *walker) end(whole bool) error {
	if !slices.ContainsFunc(w.signers.list, func(k signer) bool { return k.loose }) {
		w.sum.Keys = w.signers.Keys()
	}
	for _, cp := range w.remembered {
		if whole && cp.Size > w.sum.Last {
			return rolledBack(cp, w.sum.Last)
		}
	}
	return nil
}

func rolledBack(cp Checkpoint, end int64) error {
	return corrupt(end+1, fmt.Sprintf("a signed checkpoint covers %s, the journal ends at %d: it was rolled back", text.Plural(cp.Size, "event"), end))
}

// eventCheckpoint opens the note in a checkpoint event.
func eventCheckpoint(e *Event, gateway string, known note.Verifiers) (Checkpoint, error) {
	if err := e.CheckSelf(); err != nil {
		return Checkpoint{}, err
	}
	var p checkpointPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return Checkpoint{}, corrupt(e.Seq, "the payload of the checkpoint cannot be read: "+err.Error())
	}
	cp, err := ParseCheckpoint(p.Note, gateway, known)
	if err != nil {
		return Checkpoint{}, corrupt(e.Seq, err.Error())
	}
	if cp.Size >= e.Seq {
		return Checkpoint{}, corrupt(e.Seq, fmt.Sprintf("the checkpoint covers %s, itself included", text.Plural(cp.Size, "event")))
	}
	return cp, nil
}

// checkStoredRoot compares a checkpoint with the stored tree.
func checkStoredRoot(ctx context.Context, src Source, cp Checkpoint) error {
	if head := src.Head(); cp.Size > head.Seq {
		return rolledBack(cp, head.Seq)
	}
	return src.Tree(ctx, cp.Size, func(t *Tree) error {
		root, err := t.Root()
		if err != nil {
			return err
		}
		if root != cp.Root {
			return corrupt(1, fmt.Sprintf("the events 1 to %d differ from the events that a signed checkpoint covers", cp.Size))
		}
		return nil
	})
}

// headAt returns the head of the chain that ends with the event with a sequence number.
func headAt(ctx context.Context, src Source, seq int64) (Head, error) {
	if seq == 0 {
		return Head{}, nil
	}
	page, err := src.Events(ctx, Filter{After: seq - 1, UpTo: seq, Limit: 1})
	if err != nil {
		return Head{}, fmt.Errorf("reading event %d: %w", seq, err)
	}
	if len(page) == 0 {
		return Head{}, corrupt(seq, "the event is missing")
	}
	if err := page[0].CheckSelf(); err != nil {
		return Head{}, err
	}
	return page[0].Head(), nil
}
