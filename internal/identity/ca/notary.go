package ca

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// NotaryKey is a certificate of the notary.
type NotaryKey struct {
	// Signer is nil for a past key: private keys are not kept.
	Signer crypto.Signer
	// Chain is the certificate, its issuer and the root.
	Chain []*x509.Certificate
	// RetiredAt is zero for a key that still signs.
	RetiredAt time.Time
}

// pastNotary is the stored form of a past certificate.
type pastNotary struct {
	Chain     string    `json:"chain"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
}

// Notary returns the current key with its certificate.
func (a *Authority) Notary() NotaryKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.notary
}

// PastNotaries returns the earlier certificates, oldest first, for the key set that verifies
// old attestations.
func (a *Authority) PastNotaries() []NotaryKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.past)
}

// retireGrace is the time from a rotation to the retirement of the rotated key, so that it can
// finish pending signatures.
const retireGrace = time.Minute

// RotateNotary creates a new notary key and retires the current one, whose certificate is kept.
// The caller MUST pass the new key to its notary immediately.
func (a *Authority) RotateNotary() (NotaryKey, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renewIssuing(); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	retired := a.now().UTC().Add(retireGrace)
	past := append(slices.Clone(a.past), NotaryKey{Chain: a.notary.Chain})
	for i := range past {
		if past[i].RetiredAt.IsZero() {
			past[i].RetiredAt = retired
		}
	}
	if err := a.writePast(a.dir, past); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	if err := a.makeNotary(a.dir); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	a.past = past
	return a.notary, nil
}

// makeNotary creates a key with a certificate and writes both.
func (a *Authority) makeNotary(dir string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	return a.certifyNotary(dir, key)
}

func (a *Authority) certifyNotary(dir string, key crypto.Signer) error {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("the notary's key is %T, want Ed25519", key.Public())
	}
	chain, err := a.notaryCertificate(pub)
	if err != nil {
		return err
	}
	if err := a.writeKeyChain(filepath.Join(dir, notaryFile), key, chain...); err != nil {
		return err
	}
	if a.past == nil {
		if err := a.writePast(dir, []NotaryKey{}); err != nil {
			return err
		}
	}
	a.notary = NotaryKey{Signer: key, Chain: chain}
	return nil
}

// renewNotary issues a new certificate for the same key. It first adds the old certificate to the
// list of past ones. After a crash between the two writes, the old certificate is both in the list
// and current, and loading removes it from the list.
func (a *Authority) renewNotary() error {
	if a.now().Before(renewAt(a.notary.Chain[0])) {
		return nil
	}
	past := append(slices.Clone(a.past), NotaryKey{Chain: a.notary.Chain})
	if err := a.writePast(a.dir, past); err != nil {
		return err
	}
	if err := a.certifyNotary(a.dir, a.notary.Signer); err != nil {
		return err
	}
	a.past = past
	return nil
}

func (a *Authority) writePast(dir string, past []NotaryKey) error {
	stored := make([]pastNotary, 0, len(past))
	for _, p := range past {
		stored = append(stored, pastNotary{Chain: string(chainPEM(p.Chain)), RetiredAt: p.RetiredAt})
	}
	text, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return err
	}
	return keyfile.Write(filepath.Join(dir, notaryPastFile), append(text, '\n'))
}

func (a *Authority) loadNotary() error {
	key, chain, err := a.readKeyChain(filepath.Join(a.dir, notaryFile))
	if err != nil {
		return err
	}
	if len(chain) != 3 || !chain[2].Equal(a.root.cert) {
		return reason.Errorf(reason.ConfigInvalid, "the notary's certificate is not from this root")
	}
	a.notary = NotaryKey{Signer: key, Chain: chain}
	path := filepath.Join(a.dir, notaryPastFile)
	text, err := keyfile.Read(path)
	if err != nil {
		return err
	}
	var stored []pastNotary
	if err := json.Unmarshal(text, &stored); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	a.past = make([]NotaryKey, 0, len(stored))
	for _, s := range stored {
		c, err := ParseChain([]byte(s.Chain))
		if err != nil {
			return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
		}
		if !c[0].Equal(chain[0]) {
			a.past = append(a.past, NotaryKey{Chain: c, RetiredAt: s.RetiredAt})
		}
	}
	a.unretire(chain[0])
	return nil
}

// unretire repairs the state after a crash inside RotateNotary: older certificates of the current
// key are not retired.
func (a *Authority) unretire(current *x509.Certificate) {
	for i := range a.past {
		if string(a.past[i].Chain[0].RawSubjectPublicKeyInfo) == string(current.RawSubjectPublicKeyInfo) {
			a.past[i].RetiredAt = time.Time{}
		}
	}
}
