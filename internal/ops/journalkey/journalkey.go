// Package journalkey opens the journal with the keys of the certificate authority,
// and replaces the key that signs its checkpoints.
package journalkey

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// Rotate replaces the checkpoint key of an open journal. The event is the point of no return: later
// steps that fail are repeated at the next start, by Open, or by the next Rotate.
func Rotate(ctx context.Context, log *journal.Log, authority *ca.Authority) (journal.Rotation, error) {
	if err := endRotation(authority, func() (journal.Rotation, bool, error) { return log.Checkpoints.LastRotation(ctx) }); err != nil {
		return journal.Rotation{}, fmt.Errorf("completing the previous rotation: %w", err)
	}
	text, certified, err := authority.Journal.Next()
	if err != nil {
		return journal.Rotation{}, err
	}
	next, err := journal.ParseKey(text)
	if err != nil {
		return journal.Rotation{}, err
	}
	r, err := log.Checkpoints.Rotate(ctx, next, certified.ChainPEM(), certified.CertifiedAt)
	if err != nil {
		return r, err
	}
	return r, authority.Journal.Adopt(r.Last)
}

// Open completes or reverts an interrupted key rotation, and opens the journal with the resulting
// keys.
func Open(ctx context.Context, store journal.Store, authority *ca.Authority, o journal.Options) (*journal.Log, error) {
	err := endRotation(authority, func() (r journal.Rotation, found bool, err error) {
		origin, _, err := Origin(authority)
		if err != nil {
			return r, false, err
		}
		return journal.LastRotation(ctx, store, origin)
	})
	if err != nil {
		return nil, fmt.Errorf("completing the rotation of the checkpoint key: %w", err)
	}
	if o.Key, err = journal.ParseKey(authority.Journal.Signer()); err != nil {
		return nil, err
	}
	o.Keys = signingKeys(authority)
	return journal.New(store, o)
}

// endRotation completes an interrupted rotation if the journal contains it, and reverts it
// otherwise.
func endRotation(authority *ca.Authority, lastOf func() (journal.Rotation, bool, error)) error {
	pending := authority.Journal.Pending()
	if pending == "" {
		return nil
	}
	last, found, err := lastOf()
	switch {
	case err != nil:
		return err
	case found && last.New == pending:
		return authority.Journal.Adopt(last.Last)
	}
	return authority.Journal.Drop()
}

// signingKeys returns the checkpoint keys with the sizes that they sign for.
func signingKeys(authority *ca.Authority) []journal.SigningKey {
	certified := authority.Journal.Keys()
	keys := make([]journal.SigningKey, len(certified))
	for i, k := range certified {
		keys[i] = journal.SigningKey{Verifier: k.Verifier, First: k.First, Last: k.Last}
	}
	return keys
}

// Origin returns the journal's origin and the keys that verify it.
func Origin(authority *ca.Authority) (string, note.Verifiers, error) {
	keys := signingKeys(authority)
	known, err := journal.NewSigners(keys...)
	if err != nil {
		return "", nil, err
	}
	current, err := note.NewVerifier(keys[0].Verifier)
	if err != nil {
		return "", nil, fmt.Errorf("reading the checkpoint key: %w", err)
	}
	return current.Name(), known, nil
}

// Certified returns the checkpoint keys for a key set.
func Certified(authority *ca.Authority) []attest.CheckpointKey {
	certified := authority.Journal.Keys()
	list := make([]attest.CheckpointKey, len(certified))
	for i, k := range certified {
		list[i] = attest.CheckpointKey{
			Verifier: k.Verifier, CertificateChain: k.ChainPEM(), CertifiedAt: k.CertifiedAt, FirstSize: k.First, LastSize: k.Last,
		}
	}
	return list
}
