package journal

import (
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// SigningKey is a checkpoint key with the tree sizes that it signed for.
type SigningKey struct {
	// Verifier is the public key in text form, name+hash+base64.
	Verifier string `json:"verifier"`
	// First and Last are the bounds of the sizes; a Last of 0 means no upper bound.
	First int64 `json:"first_size"`
	Last  int64 `json:"last_size,omitempty"`
}

// Signers are checkpoint keys with the tree sizes that each of them may sign. It implements
// note.Verifiers; ParseCheckpoint and the verifications of this package also reject a
// checkpoint whose size its key may not sign.
type Signers struct {
	list []signer
	// other holds keys that sign for every size; it may be nil.
	other note.Verifiers
}

type signer struct {
	SigningKey
	verifier note.Verifier
	// rotated is set when a verification has found the end of the key in the journal itself.
	rotated bool
	// due is true for a key that a later rotation in the journal must introduce.
	due bool
	// loose is true for a key without declared sizes.
	loose bool
}

// NewSigners parses keys in their text form.
func NewSigners(keys ...SigningKey) (*Signers, error) {
	s := &Signers{}
	for _, k := range keys {
		if err := s.add(k); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Signers) add(k SigningKey) error {
	v, err := note.NewVerifier(k.Verifier)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "verifier key %q: %w", k.Verifier, err).
			WithRemedy("Give it as the gateway prints it: name+hash+base64.")
	}
	if k.First < 0 || k.Last < 0 || k.Last > 0 && k.Last < k.First {
		return reason.Errorf(reason.InvalidInput, "verifier key %q: it cannot have signed for the sizes %d to %d", k.Verifier, k.First, k.Last)
	}
	if s.find(k.Verifier) != nil {
		return reason.Errorf(reason.InvalidInput, "verifier key %q occurs twice", k.Verifier)
	}
	s.list = append(s.list, signer{SigningKey: k, verifier: v})
	return nil
}

// Verifier implements note.Verifiers.
func (s *Signers) Verifier(name string, hash uint32) (note.Verifier, error) {
	if k := s.byHash(name, hash); k != nil {
		return k.verifier, nil
	}
	if s.other != nil {
		return s.other.Verifier(name, hash)
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

func (s *Signers) byHash(name string, hash uint32) *signer {
	i := slices.IndexFunc(s.list, func(k signer) bool { return k.verifier.Name() == name && k.verifier.KeyHash() == hash })
	if i < 0 {
		return nil
	}
	return &s.list[i]
}

func (s *Signers) find(text string) *signer {
	i := slices.IndexFunc(s.list, func(k signer) bool { return k.Verifier == text })
	if i < 0 {
		return nil
	}
	return &s.list[i]
}

// knows reports whether the signers include a key in text form.
func (s *Signers) knows(text string) bool {
	if s.find(text) != nil {
		return true
	}
	v, err := note.NewVerifier(text)
	if err != nil || s.other == nil {
		return false
	}
	found, err := s.other.Verifier(v.Name(), v.KeyHash())
	return err == nil && found != nil
}

// allows refuses a size that the key may not sign.
func (s *Signers) allows(sig note.Signature, size int64) error {
	k := s.byHash(sig.Name, sig.Hash)
	switch {
	case k == nil:
		return nil
	case k.Last > 0 && size > k.Last:
		return fmt.Errorf("checkpoint: it covers %s and is signed by the key %s, which signed for no more than %d", text.Plural(size, "event"), k.Verifier, k.Last)
	case size < k.First:
		return fmt.Errorf("checkpoint: it covers %s and is signed by the key %s, which signed for no less than %d", text.Plural(size, "event"), k.Verifier, k.First)
	case k.due:
		return fmt.Errorf("checkpoint: it is signed by the key %s, and no event before it says that this key took over", k.Verifier)
	}
	return nil
}

// walkSigners copies known for one verification of the events after a sequence number. The
// verification records the rotations that it finds in the copy. A key whose sizes begin after
// that number is valid only after a rotation event has introduced it.
func walkSigners(known note.Verifiers, after int64) *Signers {
	given, ok := known.(*Signers)
	if !ok || given == nil {
		return &Signers{other: known}
	}
	s := &Signers{list: slices.Clone(given.list), other: given.other}
	for i := range s.list {
		s.list[i].due = s.list[i].First > after && s.list[i].First > 0
	}
	return s
}

// Keys lists the keys with their sizes.
func (s *Signers) Keys() []SigningKey {
	keys := make([]SigningKey, len(s.list))
	for i, k := range s.list {
		keys[i] = k.SigningKey
	}
	return keys
}
