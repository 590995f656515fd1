// Package tamper is a corpus of falsified journals. It has nine kinds of tampering that a
// verifier must detect, each in several forms, made from any honest journal with at least three
// checkpoints.
package tamper

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Case is one falsified journal.
type Case struct {
	// Kind is one of: edit, drop, reorder, truncate, splice, fork, clock back, key swap, checkpoint
	// rollback.
	Kind string
	// Name describes the change.
	Name   string
	Events []journal.Event
	// First is the sequence number that a verifier must report.
	First int64
}

// checkpoint is the place of a checkpoint, and the size that it covers.
type checkpoint struct{ seq, size int64 }

// forger makes cases from an honest journal.
type forger struct {
	honest, other []journal.Event
	marks         []checkpoint
	cases         []Case
}

// Corpus falsifies honest, a whole journal with at least three checkpoints and five events after
// the last one. other is the journal of another gateway, at least as long.
func Corpus(honest, other []journal.Event) ([]Case, error) {
	f := &forger{honest: honest, other: other}
	for i := range honest {
		if honest[i].Code != event.Checkpoint {
			continue
		}
		var p struct{ Size int64 }
		if err := json.Unmarshal(honest[i].Payload, &p); err != nil {
			return nil, fmt.Errorf("reading checkpoint %d: %w", honest[i].Seq, err)
		}
		f.marks = append(f.marks, checkpoint{honest[i].Seq, p.Size})
	}
	if len(f.marks) < 3 || f.marks[len(f.marks)-1].seq > int64(len(honest)-5) || len(other) < len(honest) {
		return nil, fmt.Errorf("the journal has %d events and %d checkpoints; that is too few", len(honest), len(f.marks))
	}
	f.edits()
	f.drops()
	f.orders()
	f.ends()
	f.times()
	return f.cases, f.checkpoints()
}

// add adds a case. If rehash is not 0, the chain is consistent again from that sequence number
// on. An attacker who can write but not sign can achieve this.
func (f *forger) add(kind, name string, first, rehash int64, change func(ev []journal.Event) []journal.Event) {
	events := change(slices.Clone(f.honest))
	if rehash > 0 {
		Rehash(events, rehash)
	}
	f.cases = append(f.cases, Case{Kind: kind, Name: name, Events: events, First: first})
}

// Rehash seals the events again from a sequence number on, and numbers them by their position.
func Rehash(events []journal.Event, from int64) {
	for i := int(from) - 1; i < len(events); i++ {
		var prev journal.Head
		if i > 0 {
			prev = events[i-1].Head()
		}
		e := events[i]
		nonce := journal.NewNonce()
		copy(nonce.Salt[:], e.Salt)
		events[i] = journal.Seal(prev, event.Draft{
			Code: e.Code, Session: e.Session, Run: e.Run, Actor: e.Actor, Subject: e.Subject, Payload: e.Payload,
		}, e.At, nonce)
	}
}

// signed returns the first event that the second checkpoint covers and the first one does not. If a
// rehashed chain breaks between them, a verifier can locate it only to this event.
func (f *forger) signed() int64 { return f.marks[0].size + 1 }

// middle returns an event between the first checkpoint and the second that is not a checkpoint.
func (f *forger) middle() int64 { return (f.marks[0].seq + f.marks[1].size) / 2 }

// edits change the content of one event.
func (f *forger) edits() {
	at := f.middle()
	i := int(at) - 1
	payload := json.RawMessage(`{"forged":true}`)
	put := func(ev []journal.Event) []journal.Event { ev[i].Payload = payload; return ev }
	f.add("edit", "payload", at, 0, put)
	f.add("edit", "payload, rehashed", f.signed(), at, put)
	f.add("edit", "payload of the first event", 1, 0, func(ev []journal.Event) []journal.Event { ev[0].Payload = payload; return ev })
	f.add("edit", "actor", at, 0, func(ev []journal.Event) []journal.Event { ev[i].Actor = "user:mallory"; return ev })
	f.add("edit", "code", at, 0, func(ev []journal.Event) []journal.Event { ev[i].Code = event.Exported; return ev })
	f.add("edit", "subject of the last event", int64(len(f.honest)), 0, func(ev []journal.Event) []journal.Event {
		ev[len(ev)-1].Subject = "somebody-else"
		return ev
	})
	f.add("edit", "payloads exchanged with their salts and digests", at, 0, func(ev []journal.Event) []journal.Event {
		a, b := &ev[i], &ev[i+1]
		a.Payload, b.Payload, a.Salt, b.Salt = b.Payload, a.Payload, b.Salt, a.Salt
		a.PayloadSHA256, b.PayloadSHA256 = b.PayloadSHA256, a.PayloadSHA256
		return ev
	})
	f.add("edit", "payload said to be erased, salt kept", at, 0, func(ev []journal.Event) []journal.Event { ev[i].Payload = nil; return ev })
	f.add("edit", "payload erased together with its digest", at, 0, func(ev []journal.Event) []journal.Event {
		ev[i].Payload, ev[i].Salt, ev[i].PayloadSHA256 = nil, nil, [32]byte{}
		return ev
	})
	f.add("edit", "hash", at, 0, func(ev []journal.Event) []journal.Event { ev[i].Hash[31] ^= 1; return ev })
}

// drops remove events.
func (f *forger) drops() {
	at := f.middle()
	i := int(at) - 1
	cut := func(ev []journal.Event) []journal.Event { return slices.Delete(ev, i, i+1) }
	f.add("drop", "one event", at, 0, cut)
	// The second checkpoint moves up by one. If it covered all events before it, it now covers
	// itself, which is detected before its root.
	first := f.signed()
	if f.marks[1].size == f.marks[1].seq-1 {
		first = f.marks[1].size
	}
	f.add("drop", "one event, rehashed", first, at, cut)
	f.add("drop", "the first event", 1, 0, func(ev []journal.Event) []journal.Event { return ev[1:] })
}

// orders move events.
func (f *forger) orders() {
	at := f.middle()
	i := int(at) - 1
	swap := func(ev []journal.Event) []journal.Event { ev[i], ev[i+1] = ev[i+1], ev[i]; return ev }
	f.add("reorder", "two neighbours", at, 0, swap)
	f.add("reorder", "two neighbours, rehashed", f.signed(), at, swap)
	splice := func(ev []journal.Event) []journal.Event { copy(ev[i:i+3], f.other[i:i+3]); return ev }
	f.add("splice", "three events of another journal", at, 0, splice)
	f.add("splice", "three events of another journal, rehashed", f.signed(), at, splice)
	f.add("splice", "the rest of another journal", at, 0, func(ev []journal.Event) []journal.Event {
		return append(ev[:i], f.other[i:len(ev)]...)
	})
}

// ends truncate the journal or continue it differently.
func (f *forger) ends() {
	last := f.marks[len(f.marks)-1]
	f.add("truncate", "the last three events", int64(len(f.honest))-2, 0, func(ev []journal.Event) []journal.Event { return ev[:len(ev)-3] })
	f.add("truncate", "everything after the second checkpoint", f.marks[1].seq+1, 0, func(ev []journal.Event) []journal.Event {
		return ev[:f.marks[1].seq]
	})
	f.add("fork", "another history after the last checkpoint", last.size+1, last.seq+1, func(ev []journal.Event) []journal.Event {
		return rewritten(ev, last.seq)
	})
	f.add("fork", "another history from the first checkpoint on", f.signed(), f.marks[0].seq+1, func(ev []journal.Event) []journal.Event {
		return rewritten(ev, f.marks[0].seq)
	})
}

// rewritten changes the events after a sequence number, except events with their own signature.
func rewritten(ev []journal.Event, after int64) []journal.Event {
	for i := int(after); i < len(ev); i++ {
		if ev[i].Code != event.Checkpoint && ev[i].Code != event.Attested {
			ev[i].Payload = json.RawMessage(fmt.Sprintf(`{"fork":%d}`, i))
		}
	}
	return ev
}

// times set an event's clock back and make the rest of the chain consistent.
func (f *forger) times() {
	at := f.middle()
	f.add("clock back", "an hour, rehashed", at, 0, func(ev []journal.Event) []journal.Event {
		i := int(at) - 1
		e, prev := ev[i], ev[i-1].Head()
		prev.At = time.Time{} // or Seal would refuse the earlier time
		ev[i] = journal.Seal(prev, event.Draft{
			Code: e.Code, Session: e.Session, Run: e.Run, Actor: e.Actor, Subject: e.Subject, Payload: e.Payload,
		}, e.At.Add(-time.Hour), journal.NewNonce())
		Rehash(ev, at+1)
		return ev
	})
}

// checkpoints sign with another key, or repeat an earlier signature.
func (f *forger) checkpoints() error {
	swapped, err := f.swapKey(f.marks[1])
	if err != nil {
		return err
	}
	second := int(f.marks[1].seq) - 1
	f.add("key swap", "a checkpoint signed by another key, rehashed", f.marks[1].seq, f.marks[1].seq, func(ev []journal.Event) []journal.Event {
		ev[second].Payload = swapped
		return ev
	})
	older := f.honest[f.marks[0].seq-1].Payload
	third := f.marks[2]
	f.add("checkpoint rollback", "the first checkpoint again in place of the third, rehashed", third.seq, third.seq, func(ev []journal.Event) []journal.Event {
		ev[third.seq-1].Payload = older
		return ev
	})
	f.add("checkpoint rollback", "the second checkpoint claims to be the first", f.marks[1].seq, 0, func(ev []journal.Event) []journal.Event {
		ev[second].Payload = older
		return ev
	})
	return nil
}

// swapKey returns the payload of an honest checkpoint, signed by a new key of the same name.
func (f *forger) swapKey(c checkpoint) (json.RawMessage, error) {
	var p struct {
		Note string `json:"note"`
		Root string `json:"root"`
		Size int64  `json:"size"`
	}
	if err := json.Unmarshal(f.honest[c.seq-1].Payload, &p); err != nil {
		return nil, fmt.Errorf("reading checkpoint %d: %w", c.seq, err)
	}
	root, err := hex.DecodeString(p.Root)
	if err != nil || len(root) != 32 {
		return nil, fmt.Errorf("reading the root of checkpoint %d: %w", c.seq, err)
	}
	name, _, _ := strings.Cut(p.Note, "\n")
	private, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	forged, err := journal.SignCheckpoint(signer, c.size, [32]byte(root))
	if err != nil {
		return nil, err
	}
	p.Note = forged.Note
	return canonical.Marshal(p)
}
