package attest

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// CheckpointKey is a key that signs the journal: its checkpoints and exports.
//
// The certificate is checked only at the time of certification. A checkpoint has no trustworthy
// time, and a journal lives longer than a certificate of the issuing CA. The end of a key is
// recorded twice, by the rotation event and by the sizes: an export that begins later lacks the
// event, and an older key set lacks the sizes. If both exist, they must agree.
type CheckpointKey struct {
	// Verifier is the public key as signed notes write it, name+hash+base64.
	Verifier string `json:"verifier"`
	// CertificateChain is PEM: the key's certificate and its issuers without the
	// root.
	CertificateChain string `json:"certificate_chain"`
	// CertifiedAt is the time of the certification, at which the certificate is checked: the key
	// signs until it is replaced.
	CertifiedAt time.Time `json:"certified_at"`
	// FirstSize and LastSize are the bounds of the tree sizes that the key signs. LastSize is 0
	// for the key that still signs.
	FirstSize int64 `json:"first_size"`
	LastSize  int64 `json:"last_size,omitzero"`
}

// WithCheckpointKeys returns a copy of the set in version 2 with these keys, the current one
// first.
func (k KeySet) WithCheckpointKeys(keys []CheckpointKey) KeySet {
	k.Format, k.CheckpointKeys = KeySetFormat, keys
	return k
}

// checkCheckpointKeys proves each key, and checks that each key starts at the size after the
// last size of its predecessor, the next key in the list.
func (k KeySet) checkCheckpointKeys() error {
	for i, key := range k.CheckpointKeys {
		if err := k.CheckCheckpointKey(key); err != nil {
			return fmt.Errorf("checkpoint key %s: %w", key.Verifier, err)
		}
		if i == 0 {
			continue
		}
		if next := k.CheckpointKeys[i-1]; key.LastSize == 0 || next.FirstSize != key.LastSize+1 {
			return fmt.Errorf("checkpoint key %s signed up to the size %d, the one after it from %d on", key.Verifier, key.LastSize, next.FirstSize)
		}
	}
	return nil
}

// CheckCheckpointKey proves that the gateway's root certifies a key. It is for a key of the
// set, or a key that replaced one according to the journal.
func (k KeySet) CheckCheckpointKey(key CheckpointKey) error {
	roots, err := parsePEM(k.CARoot)
	if err != nil || len(roots) != 1 {
		return errors.New("ca_root is not one certificate in PEM")
	}
	chain, err := parsePEM(key.CertificateChain)
	if err != nil {
		return fmt.Errorf("certificate_chain: %w", err)
	}
	if len(chain) == 0 {
		return errors.New("certificate_chain is empty")
	}
	w, err := verifyChain(append(chain, roots[0]), journalPath)
	if err != nil {
		return err
	}
	leaf := chain[0]
	if host := leaf.URIs[0].Host; host != k.Gateway {
		return fmt.Errorf("it is certified for gateway %q, the set is of %q", host, k.Gateway)
	}
	if !w.holds(key.CertifiedAt) {
		return fmt.Errorf("it was certified at %s, the certificate is valid from %s to %s", stamp(key.CertifiedAt), stamp(w.from), stamp(w.to))
	}
	pub, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("the certificate is for a %T, want %s", leaf.PublicKey, Ed25519)
	}
	name, _, _ := strings.Cut(key.Verifier, "+")
	if want, err := note.NewEd25519VerifierKey(name, pub); err != nil || want != key.Verifier {
		return errors.New("verifier differs from the key of the certificate")
	}
	if key.FirstSize < 0 || key.LastSize < 0 || key.LastSize > 0 && key.LastSize < key.FirstSize {
		return fmt.Errorf("it cannot have signed for the sizes %d to %d", key.FirstSize, key.LastSize)
	}
	return nil
}
