package journal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/event"
)

// Domain tags separate the hashes of this format from all other uses of SHA-256
// (docs/format/journal.md).
const (
	headerTag = "palyra.dev/journal/header/v1"
	eventTag  = "palyra.dev/journal/event/v1"
)

// SaltSize is the length of a payload's salt in bytes.
const SaltSize = 32

// Event is one entry of the journal with its place in the chain.
type Event struct {
	// Seq counts from 1 without gaps.
	Seq int64
	// ID is a ULID.
	ID string
	// At is in UTC with microseconds and never decreases along the chain.
	At      time.Time
	Code    event.Code
	Session string
	Run     string
	Actor   string
	Subject string
	// Payload is one JSON object in RFC 8785 form, or nil if it was erased.
	Payload json.RawMessage
	// Salt is kept and erased with the payload, so that guesses of an erased payload cannot be
	// tested against PayloadSHA256.
	Salt          []byte
	PayloadSHA256 [32]byte
	PrevHash      [32]byte
	Hash          [32]byte
}

// Erased reports whether the payload was erased. The chain is valid without it.
func (e *Event) Erased() bool { return e.Payload == nil && e.Salt == nil }

// Head is the end of the chain: the number, hash and time of the last event. The zero value is
// the head of an empty journal.
type Head struct {
	Seq  int64
	Hash [32]byte
	At   time.Time
}

// Head returns the head of a chain that ends with e.
func (e *Event) Head() Head { return Head{Seq: e.Seq, Hash: e.Hash, At: e.At} }

// Nonce has the parts of an event that do not depend on its place in the chain: the random
// bytes and the payload's digest. It is computed before the writer's critical section, to keep
// that section short.
type Nonce struct {
	Salt [SaltSize]byte
	// ID is the random part of the event's ULID.
	ID [10]byte
	// digest covers Salt and the payload. Prepare computes it.
	digest   [32]byte
	prepared bool
}

// NewNonce generates a Nonce from the system's random generator.
func NewNonce() Nonce {
	var n Nonce
	var buf [SaltSize + 10]byte
	rand.Read(buf[:]) // never fails: crypto/rand aborts the program instead
	copy(n.Salt[:], buf[:])
	copy(n.ID[:], buf[SaltSize:])
	return n
}

// Prepare generates the Nonce of a draft and digests its payload. The payload MUST NOT change
// afterwards.
func Prepare(d *event.Draft) Nonce {
	n := NewNonce()
	n.digest, n.prepared = payloadDigest(n.Salt[:], d.Payload), true
	return n
}

// Seal converts a draft into the event that follows prev. The event's time is at, or the time
// of prev if at is earlier. The nonce MUST come from Prepare with this draft, or from NewNonce.
// Seal does no I/O and keeps a reference to the draft's payload.
func Seal(prev Head, d event.Draft, at time.Time, nonce Nonce) Event {
	at = Instant(at)
	if at.Before(prev.At) {
		at = prev.At
	}
	e := Event{
		Seq: prev.Seq + 1, ID: newID(at, nonce), At: at, Code: d.Code,
		Session: d.Session, Run: d.Run, Actor: d.Actor, Subject: d.Subject,
		Payload: d.Payload, Salt: nonce.Salt[:], PrevHash: prev.Hash,
	}
	if e.PayloadSHA256 = nonce.digest; !nonce.prepared {
		e.PayloadSHA256 = payloadDigest(e.Salt, e.Payload)
	}
	e.Hash = e.chainHash()
	return e
}

// Instant truncates t to the precision of the journal: UTC, microseconds.
func Instant(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

func newID(at time.Time, nonce Nonce) string {
	var id ulid.ULID
	// SetTime fails only after the year 10889. The id then has time 0, and the event's own time is
	// still correct.
	_ = id.SetTime(uint64(max(at.UnixMilli(), 0)))
	copy(id[6:], nonce.ID[:])
	return id.String()
}

func payloadDigest(salt, payload []byte) [32]byte {
	var stack [1024]byte
	if len(salt)+len(payload) <= len(stack) {
		return sha256.Sum256(append(append(stack[:0], salt...), payload...))
	}
	h := sha256.New() // a large payload is not copied
	_, _ = h.Write(salt)
	_, _ = h.Write(payload)
	return [32]byte(h.Sum(nil))
}

// headerDigest hashes the event except its payload and place. Every text is preceded by its
// length, so no two headers have the same encoding.
func (e *Event) headerDigest() [32]byte {
	var stack [512]byte
	b := appendText(stack[:0], headerTag)
	b = appendText(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixMicro()))
	for _, s := range [...]string{string(e.Code), e.Session, e.Run, e.Actor, e.Subject} {
		b = appendText(b, s)
	}
	return sha256.Sum256(b)
}

// chainHash returns SHA-256(tag, seq, prev_hash, header digest, payload_sha256).
func (e *Event) chainHash() [32]byte {
	var stack [192]byte
	header := e.headerDigest()
	b := appendText(stack[:0], eventTag)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	b = append(b, e.PrevHash[:]...)
	b = append(b, header[:]...)
	b = append(b, e.PayloadSHA256[:]...)
	return sha256.Sum256(b)
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// CheckSelf recomputes e's own digests. It returns a CorruptError.
func (e *Event) CheckSelf() error {
	switch {
	case e.Erased():
	case e.Payload == nil || len(e.Salt) != SaltSize:
		return corrupt(e.Seq, "payload and salt must both be present or both be erased")
	case payloadDigest(e.Salt, e.Payload) != e.PayloadSHA256:
		return corrupt(e.Seq, "the payload does not match its digest")
	}
	if e.chainHash() != e.Hash {
		return corrupt(e.Seq, "the event does not match its hash")
	}
	return nil
}

// CheckAfter checks that e follows prev in the chain. It returns a CorruptError with the first
// wrong sequence number.
func (e *Event) CheckAfter(prev Head) error {
	switch want := prev.Seq + 1; {
	case e.Seq > want:
		return corrupt(want, fmt.Sprintf("events are missing: %d follows %d", e.Seq, prev.Seq))
	case e.Seq < want:
		return corrupt(want, fmt.Sprintf("events are out of order: %d follows %d", e.Seq, prev.Seq))
	case e.PrevHash != prev.Hash:
		return corrupt(e.Seq, "prev_hash is not the hash of the event before it")
	case e.At.Before(prev.At):
		return corrupt(e.Seq, "the time lies before that of the event before it")
	}
	return nil
}
