package tamper

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Rewritten returns an export forged by an attacker who has the file but no key of the gateway.
// change returns the new form of an event, nil to drop it. Everything is signed again with a
// key of the forger, in the gateway's name. Data with a signature of the notary is unchanged,
// so that the export is consistent.
func Rewritten(header []byte, honest []journal.Event, change func(e journal.Event) *journal.Event) ([]byte, error) {
	var head struct {
		Gateway string          `json:"gateway"`
		Keys    json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(header, &head); err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	key, err := journal.NewKey(head.Gateway, private)
	if err != nil {
		return nil, err
	}
	var events []journal.Event
	for _, e := range honest {
		if changed := change(e); changed != nil {
			events = append(events, *changed)
		}
	}
	if err := signAll(events, key); err != nil {
		return nil, err
	}
	keys, err := withoutCheckpointKeys(head.Keys)
	if err != nil {
		return nil, err
	}
	return exported(keys, events, key)
}

// withoutCheckpointKeys returns a key set in the form of version 1, which does not disclose the
// forgery.
func withoutCheckpointKeys(keys json.RawMessage) (json.RawMessage, error) {
	var set map[string]any
	if err := json.Unmarshal(keys, &set); err != nil {
		return nil, fmt.Errorf("reading the key set: %w", err)
	}
	delete(set, "checkpoint_keys")
	set["format"] = "palyra-key-set/v1"
	return canonical.Marshal(set)
}

// signAll seals the events again, and signs the checkpoints among them.
func signAll(events []journal.Event, key *journal.Key) error {
	for i := range events {
		if events[i].Code == event.Checkpoint {
			cp, err := journal.SignCheckpoint(key, int64(i), root(events[:i]))
			if err != nil {
				return err
			}
			events[i].Payload, err = canonical.Marshal(map[string]any{"note": cp.Note, "root": hex.EncodeToString(cp.Root[:]), "size": cp.Size})
			if err != nil {
				return err
			}
		}
		one := events[:i+1]
		Rehash(one, int64(i)+1)
	}
	return nil
}

// root returns the Merkle tree hash of RFC 6962 over events.
func root(events []journal.Event) tlog.Hash {
	switch len(events) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return tlog.RecordHash(events[0].Hash[:])
	}
	half := 1
	for half*2 < len(events) {
		half *= 2
	}
	return tlog.NodeHash(root(events[:half]), root(events[half:]))
}

// exported returns an export in the format of docs/format/journal.md, sealed by a key.
func exported(keys json.RawMessage, events []journal.Event, key *journal.Key) ([]byte, error) {
	header, err := canonical.Marshal(map[string]any{
		"after": 0, "format": journal.ExportFormat, "frontier": []string{}, "gateway": key.Name(), "keys": keys,
		"kind": "header", "prev_hash": strings.Repeat("0", 64), "verifiers": []string{key.Verifier()},
	})
	if err != nil {
		return nil, err
	}
	text := append(slices.Clone(header), '\n')
	headerSum := sha256.Sum256(text)
	for i := range events {
		if text, err = events[i].AppendLine(text); err != nil {
			return nil, err
		}
		text = append(text, '\n')
	}
	cp, err := journal.SignCheckpoint(key, int64(len(events)), root(events))
	if err != nil {
		return nil, err
	}
	content, signed := sha256.Sum256(text), sha256.Sum256([]byte(cp.Note))
	seal, err := note.Sign(&note.Note{Text: strings.Join([]string{
		"palyra.dev/journal/export/v1", key.Name(), "0", strconv.Itoa(len(events)),
		hex.EncodeToString(headerSum[:]), hex.EncodeToString(content[:]), hex.EncodeToString(signed[:]), "",
	}, "\n")}, key)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	trailer, err := canonical.Marshal(map[string]any{
		"checkpoint": cp.Note, "count": len(events), "kind": "trailer", "seal": string(seal), "sha256": hex.EncodeToString(content[:]),
	})
	if err != nil {
		return nil, err
	}
	return append(append(text, trailer...), '\n'), nil
}
