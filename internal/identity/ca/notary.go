package ca

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
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

// Notary has the key with which the notary signs attestations, and its earlier certificates.
type Notary struct {
	keys    *keyStore
	root    *trustRoot
	issuing *Issuing

	// mu guards the fields below.
	mu      sync.Mutex
	current NotaryKey
	past    []NotaryKey
}

// Key returns the current key with its certificate.
func (n *Notary) Key() NotaryKey {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// Past returns the earlier certificates, oldest first, for the key set that verifies
// old attestations.
func (n *Notary) Past() []NotaryKey {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.past)
}

// retireGrace is the time from a rotation to the retirement of the rotated key, so that it can
// finish pending signatures.
const retireGrace = time.Minute

// Rotate creates a new notary key and retires the current one, whose certificate is kept.
// The caller MUST pass the new key to its notary immediately.
func (n *Notary) Rotate() (NotaryKey, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.issuing.renew(); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	retired := n.root.now().UTC().Add(retireGrace)
	past := append(slices.Clone(n.past), NotaryKey{Chain: n.current.Chain})
	for i := range past {
		if past[i].RetiredAt.IsZero() {
			past[i].RetiredAt = retired
		}
	}
	if err := writePast(n.keys.dir, past); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	if err := n.make(n.keys.dir); err != nil {
		return NotaryKey{}, fmt.Errorf("rotating the notary's key: %w", err)
	}
	n.past = past
	return n.current, nil
}

// make creates a key with a certificate and writes both.
func (n *Notary) make(dir string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	return n.certify(dir, key)
}

// certify issues a certificate for a key, and writes both. The certificate is valid as long as the
// issuing certificate, and its chain ends with the root.
func (n *Notary) certify(dir string, key crypto.Signer) error {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("the notary's key is %T, want Ed25519", key.Public())
	}
	issued, err := n.issuing.issue(&x509.Certificate{
		URIs:        []*url.URL{n.root.id(notaryPath + "1")},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, pub, IssuingLife)
	if err != nil {
		return err
	}
	chain := append(issued.Chain, n.root.cert)
	if err := n.keys.writeKeyChain(filepath.Join(dir, notaryFile), key, chain...); err != nil {
		return err
	}
	if n.past == nil {
		if err := writePast(dir, []NotaryKey{}); err != nil {
			return err
		}
	}
	n.current = NotaryKey{Signer: key, Chain: chain}
	return nil
}

// renew issues a new certificate for the same key. It first adds the old certificate to the
// list of past ones. After a crash between the two writes, the old certificate is both in the list
// and current, and loading removes it from the list.
func (n *Notary) renew() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.root.now().Before(renewAt(n.current.Chain[0])) {
		return nil
	}
	past := append(slices.Clone(n.past), NotaryKey{Chain: n.current.Chain})
	if err := writePast(n.keys.dir, past); err != nil {
		return err
	}
	if err := n.certify(n.keys.dir, n.current.Signer); err != nil {
		return err
	}
	n.past = past
	return nil
}

func writePast(dir string, past []NotaryKey) error {
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

func (n *Notary) load() error {
	key, chain, err := n.keys.readKeyChain(filepath.Join(n.keys.dir, notaryFile))
	if err != nil {
		return err
	}
	if len(chain) != 3 || !chain[2].Equal(n.root.cert) {
		return reason.Errorf(reason.ConfigInvalid, "the notary's certificate is not from this root")
	}
	n.current = NotaryKey{Signer: key, Chain: chain}
	path := filepath.Join(n.keys.dir, notaryPastFile)
	text, err := keyfile.Read(path)
	if err != nil {
		return err
	}
	var stored []pastNotary
	if err := json.Unmarshal(text, &stored); err != nil {
		return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
	}
	n.past = make([]NotaryKey, 0, len(stored))
	for _, s := range stored {
		c, err := ParseChain([]byte(s.Chain))
		if err != nil {
			return reason.Errorf(reason.ConfigInvalid, "reading %s: %w", path, err)
		}
		if !c[0].Equal(chain[0]) {
			n.past = append(n.past, NotaryKey{Chain: c, RetiredAt: s.RetiredAt})
		}
	}
	n.unretire(chain[0])
	return nil
}

// unretire repairs the state after a crash inside Rotate: older certificates of the current
// key are not retired.
func (n *Notary) unretire(current *x509.Certificate) {
	for i := range n.past {
		if string(n.past[i].Chain[0].RawSubjectPublicKeyInfo) == string(current.RawSubjectPublicKeyInfo) {
			n.past[i].RetiredAt = time.Time{}
		}
	}
}
