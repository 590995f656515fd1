package journal

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/text"
)

// rotationTag begins the text that both keys of a rotation sign. The text cannot be mistaken for a
// checkpoint, which has three lines, or for a seal.
const rotationTag = "palyra.dev/journal/key-rotation/v1"

// Rotation is the replacement of one checkpoint key by another.
type Rotation struct {
	// Old and New are verifier keys in text form.
	Old, New string
	// Last is the largest size that Old signs; New signs larger sizes.
	Last int64
	// At is the time of the rotation by the gateway's clock. New's certificate is checked at this
	// time.
	At time.Time
	// Certificate certifies New. It is opaque here: PEM, with the certificate of the key first.
	Certificate string
}

// rotationPayload is the payload of event.KeyRotated.
type rotationPayload struct {
	Certificate string `json:"certificate_chain"`
	// Note is signed by the old key and by the new one, in that order.
	Note string `json:"note"`
}

func (r Rotation) text(gateway string) string {
	sum := sha256.Sum256([]byte(r.Certificate))
	return strings.Join([]string{
		rotationTag, gateway, r.Old, r.New, strconv.FormatInt(r.Last, 10), r.At.Format(TimeFormat), hex.EncodeToString(sum[:]), "",
	}, "\n")
}

// parseRotation reads the statement and verifies both signatures with the keys that the statement
// itself contains. The caller must check that it trusts the old key.
func parseRotation(p rotationPayload, gateway string) (Rotation, error) {
	lines := strings.Split(p.Note, "\n")
	if len(lines) != 11 || lines[0] != rotationTag {
		return Rotation{}, errors.New("it is not a statement of two signatures")
	}
	r := Rotation{Old: lines[2], New: lines[3], Certificate: p.Certificate}
	var err error
	if r.Last, err = strconv.ParseInt(lines[4], 10, 64); err != nil || r.Last < 1 {
		return Rotation{}, fmt.Errorf("its last size is %q", lines[4])
	}
	if r.At, err = time.Parse(TimeFormat, lines[5]); err != nil {
		return Rotation{}, fmt.Errorf("its time is %q", lines[5])
	}
	old, oldErr := note.NewVerifier(r.Old)
	next, nextErr := note.NewVerifier(r.New)
	if err := errors.Join(oldErr, nextErr); err != nil {
		return Rotation{}, err
	}
	if r.Old == r.New || old.Name() != gateway || next.Name() != gateway {
		return Rotation{}, errors.New("its keys are not two keys of this gateway")
	}
	n, err := note.Open([]byte(p.Note), note.VerifierList(old, next))
	if err != nil {
		return Rotation{}, err
	}
	if len(n.Sigs) != 2 || len(n.UnverifiedSigs) != 0 || n.Sigs[0].Hash != old.KeyHash() || n.Sigs[1].Hash != next.KeyHash() {
		return Rotation{}, errors.New("it is not signed by the old key and by the new one")
	}
	if n.Text != r.text(gateway) || rotationNote(n.Text, n.Sigs) != p.Note {
		return Rotation{}, errors.New("it is not in canonical form, or names another certificate")
	}
	return r, nil
}

// rotationNote returns the canonical form of a signed statement.
func rotationNote(text string, sigs []note.Signature) string {
	out := text + "\n"
	for _, s := range sigs {
		raw, err := base64.StdEncoding.Strict().DecodeString(s.Base64)
		if err != nil {
			return ""
		}
		out += "— " + s.Name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
	}
	return out
}

// Rotate replaces the signing key: it writes a last checkpoint by the old key, then an event signed
// by both keys. The returned Rotation is durable; the caller keeps the old public key with its last
// size. The new key signs from then on.
func (c *Checkpointer) Rotate(ctx context.Context, next *Key, certificate string, at time.Time) (Rotation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next.Name() != c.key.Name() {
		return Rotation{}, fmt.Errorf("rotating the checkpoint key: the new one is of %q, not of %q", next.Name(), c.key.Name())
	}
	if _, err := c.write(ctx); err != nil {
		return Rotation{}, fmt.Errorf("rotating the checkpoint key: %w", err)
	}
	// The old key signs no larger size, not even in an export: signers read the key and the size
	// together under the lock.
	r := Rotation{Old: c.key.Verifier(), New: next.Verifier(), Last: c.store.Head().Seq, At: Instant(at), Certificate: certificate}
	signed, err := note.Sign(&note.Note{Text: r.text(c.gateway)}, c.key, next)
	if err != nil {
		return Rotation{}, fmt.Errorf("rotating the checkpoint key: %w", err)
	}
	payload, err := canonical.Marshal(rotationPayload{Certificate: certificate, Note: string(signed)})
	if err != nil {
		return Rotation{}, err
	}
	known, err := NewSigners(append([]SigningKey{{Verifier: r.New, First: r.Last + 1}}, endedKeys(c.keys, r)...)...)
	if err != nil {
		return Rotation{}, err
	}
	if _, err := c.store.Append(ctx, event.Draft{Code: event.KeyRotated, Actor: Daemon, Payload: payload}); err != nil {
		return Rotation{}, err
	}
	c.keys, c.key, c.known = known.Keys(), next, known
	return r, nil
}

// endedKeys returns a copy of the keys in which the old key of a rotation has its last size.
func endedKeys(keys []SigningKey, r Rotation) []SigningKey {
	out := make([]SigningKey, len(keys))
	for i, k := range keys {
		if k.Verifier == r.Old {
			k.Last = r.Last
		}
		out[i] = k
	}
	return out
}

// LastRotation returns the newest rotation of a journal, verified by its two keys; ok is false
// if none exists.
func LastRotation(ctx context.Context, src Source, gateway string) (r Rotation, ok bool, err error) {
	page, err := src.Events(ctx, Filter{Code: string(event.KeyRotated), Newest: true, Limit: 1})
	if err != nil || len(page) == 0 {
		return r, false, err
	}
	r, err = eventRotation(&page[0], gateway)
	return r, err == nil, err
}

// LastRotation returns the newest rotation of the journal.
func (c *Checkpointer) LastRotation(ctx context.Context) (r Rotation, ok bool, err error) {
	return LastRotation(ctx, c.store, c.gateway)
}

func eventRotation(e *Event, gateway string) (Rotation, error) {
	if err := e.CheckSelf(); err != nil {
		return Rotation{}, err
	}
	var p rotationPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return Rotation{}, corrupt(e.Seq, "the rotation of the checkpoint key cannot be read: "+err.Error())
	}
	r, err := parseRotation(p, gateway)
	if err != nil {
		return Rotation{}, corrupt(e.Seq, "the rotation of the checkpoint key does not verify: "+err.Error())
	}
	if r.Last >= e.Seq {
		return Rotation{}, corrupt(e.Seq, fmt.Sprintf("the rotation of the checkpoint key lets the old one sign for %d events, itself included", r.Last))
	}
	return r, nil
}

// rotation stores the keys of a rotation in the chain.
func (w *walker) rotation(e *Event) error {
	r, err := eventRotation(e, w.gateway)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return corrupt(e.Seq, "the rotation of the checkpoint key: "+fmt.Sprintf(format, args...))
	}
	old := w.signers.find(r.Old)
	if old == nil && w.signers.knows(r.Old) {
		if err := w.signers.add(SigningKey{Verifier: r.Old}); err != nil {
			return err
		}
		old = w.signers.find(r.Old)
	}
	switch {
	case old == nil:
		return bad("the old key %s is not known", r.Old)
	case old.rotated:
		return bad("the key %s was replaced before", r.Old)
	case old.Last > 0 && old.Last != r.Last:
		return bad("it lets the key %s sign for %d events, the key set for %d", r.Old, r.Last, old.Last)
	case r.Last < old.First || r.Last < w.sum.Signed.Size:
		return bad("it ends the key %s at %s, and a checkpoint over %d was signed", r.Old, text.Plural(r.Last, "event"), w.sum.Signed.Size)
	}
	old.Last, old.rotated = r.Last, true
	w.sum.Rotations++
	if next := w.signers.find(r.New); next != nil {
		if next.loose && next.First == 0 {
			next.First = r.Last + 1
		}
		if next.First != r.Last+1 || next.rotated {
			return bad("it lets the key %s sign from %d events on, the key set from %d", r.New, r.Last+1, next.First)
		}
		next.due = false
		return nil
	}
	if w.admit != nil {
		if err := w.admit(r); err != nil {
			return bad("the new key %s is not one of this gateway: %v", r.New, err)
		}
	}
	return w.signers.add(SigningKey{Verifier: r.New, First: r.Last + 1})
}
