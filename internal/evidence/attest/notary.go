package attest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/dsse"
)

// NotaryConfig is the configuration of a notary.
type NotaryConfig struct {
	// Signer holds an Ed25519 key.
	Signer crypto.Signer
	// Chain is the notary's certificate, then its issuers, the root last.
	Chain []*x509.Certificate
	// Gateway names the gateway in each attestation: its trust domain.
	Gateway string
	// Past are earlier certificates, so that the key set still covers their signatures. It may
	// be empty.
	Past []PastKey
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// PastKey is a certificate that no longer signs.
type PastKey struct {
	Chain []*x509.Certificate
	// RetiredAt is the time when the key stopped signing; zero if the key continued with a newer
	// certificate.
	RetiredAt time.Time
}

// Envelope is one attestation, ready to be stored and sent.
type Envelope struct {
	// ID is the attestation's ULID.
	ID string
	// JSON is the DSSE envelope in RFC 8785 form.
	JSON []byte
	// SHA256 is the lower-case hex digest of JSON.
	SHA256 string
	// said is the statement that the notary of this process signed. It is nil for an envelope that
	// was parsed from JSON.
	said *Statement
}

// Statement returns the statement of the envelope. A statement signed by this process is not
// parsed again; any other is read without verification, as by Read.
func (e Envelope) Statement() (Statement, error) {
	if e.said != nil {
		return *e.said, nil
	}
	return Read(e.JSON)
}

// NamesFiles reports whether the statement has digests of files that the call was bound to, or
// that it wrote. It is true for an unreadable statement.
func (e Envelope) NamesFiles() bool {
	s, err := e.Statement()
	return err != nil || len(s.Predicate.Inputs.Files)+len(s.Predicate.Outputs.Files) > 0
}

// Notary signs attestations. It is safe for concurrent use.
type Notary struct {
	gateway string
	now     func() time.Time

	mu      sync.RWMutex
	current seal
	past    []PastKey
}

// seal is a key with its certificate chain.
type seal struct {
	signer crypto.Signer
	keyID  string
	chain  []*x509.Certificate
	window window
}

// NewNotary checks that the key is Ed25519, that the certificate belongs to it, and that the chain
// leads to its root.
func NewNotary(c NotaryConfig) (*Notary, error) {
	if c.Gateway == "" {
		return nil, errors.New("making notary: it needs the gateway's name")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s, err := newSeal(c.Signer, c.Chain)
	if err != nil {
		return nil, fmt.Errorf("making notary: %w", err)
	}
	n := &Notary{gateway: c.Gateway, now: c.Now, current: s, past: slices.Clone(c.Past)}
	if _, err := NewVerifier(n.KeySet()); err != nil {
		return nil, fmt.Errorf("making notary: %w", err)
	}
	return n, nil
}

func newSeal(signer crypto.Signer, chain []*x509.Certificate) (seal, error) {
	if signer == nil {
		return seal{}, errors.New("there is no signer")
	}
	pub, ok := signer.Public().(ed25519.PublicKey)
	if !ok {
		return seal{}, fmt.Errorf("the signer's key is %T, want Ed25519", signer.Public())
	}
	if len(chain) < 2 {
		return seal{}, errors.New("the certificate chain needs the notary's certificate first and the root last")
	}
	if !pub.Equal(chain[0].PublicKey) {
		return seal{}, errors.New("the certificate is for another key")
	}
	w, err := verifyChain(chain, notaryPath)
	if err != nil {
		return seal{}, err
	}
	id, err := keyID(chain[0])
	if err != nil {
		return seal{}, err
	}
	s := seal{signer: signer, keyID: id, chain: chain, window: w}
	return s, s.tryOut(pub)
}

// tryOut signs once, so that a signer that does not work is detected at the start instead of after
// a call has run.
func (s seal) tryOut(pub ed25519.PublicKey) error {
	msg := []byte("palyra notary self-test")
	sig, err := s.signer.Sign(rand.Reader, msg, crypto.Hash(0))
	if err != nil {
		return fmt.Errorf("trying the signer: %w", err)
	}
	if !ed25519.Verify(pub, msg, sig) {
		return errors.New("the signer's signature does not verify")
	}
	return nil
}

// Use continues with another certificate or key, for example after a renewal or a rotation. The
// previous certificate remains in the key set. If the key is new, the old key is retired as of now.
func (n *Notary) Use(signer crypto.Signer, chain []*x509.Certificate) error {
	next, err := newSeal(signer, chain)
	if err != nil {
		return fmt.Errorf("changing the notary's key: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !next.chain[len(next.chain)-1].Equal(n.current.chain[len(n.current.chain)-1]) {
		return errors.New("changing the notary's key: the new chain has another root")
	}
	if next.chain[0].Equal(n.current.chain[0]) {
		return nil
	}
	old := PastKey{Chain: n.current.chain}
	if next.keyID != n.current.keyID {
		old.RetiredAt = n.now().UTC()
		retire(n.past, n.current.chain[0], old.RetiredAt)
	}
	n.past = append(n.past, old)
	n.current = next
	return nil
}

// retire marks the earlier certificates of a key that no longer signs.
func retire(past []PastKey, c *x509.Certificate, at time.Time) {
	for i := range past {
		if past[i].RetiredAt.IsZero() && bytes.Equal(past[i].Chain[0].RawSubjectPublicKeyInfo, c.RawSubjectPublicKeyInfo) {
			past[i].RetiredAt = at
		}
	}
}

// Sign builds and signs the attestation of one execution. If it returns an error, the caller
// MUST fail the call. The reason is AttestationFailed if the execution cannot be attested now,
// or signing failed.
func (n *Notary) Sign(_ context.Context, x Execution) (Envelope, error) {
	// The time is taken under the lock, so that a key retired by Use never signs a time after its
	// retirement.
	n.mu.RLock()
	defer n.mu.RUnlock()
	at := n.now().UTC()
	if !n.current.window.holds(at) {
		return Envelope{}, reason.Errorf(reason.AttestationFailed,
			"the notary's certificate is valid from %s to %s and it is %s", stamp(n.current.window.from), stamp(n.current.window.to), stamp(at)).
			WithRemedy("Correct the clock, or restart palyrad so that it renews the certificate.")
	}
	s, err := x.statement(n.gateway, at)
	if err != nil {
		return Envelope{}, reason.Errorf(reason.AttestationFailed, "attesting proposal %s: %w", x.ProposalID, err)
	}
	payload, err := canonical.Marshal(s)
	if err != nil {
		return Envelope{}, fmt.Errorf("attesting proposal %s: %w", x.ProposalID, err)
	}
	// Redact before signing: a redacted statement would have no valid signature.
	signed, _, err := tool.Redact(payload, nil)
	if err != nil {
		return Envelope{}, fmt.Errorf("attesting proposal %s: %w", x.ProposalID, err)
	}
	text, err := dsse.Sign(PayloadType, signed, n.current.keyID, n.current.signer)
	if err != nil {
		return Envelope{}, reason.Errorf(reason.AttestationFailed, "signing the attestation of proposal %s: %w", x.ProposalID, err)
	}
	sum := sha256.Sum256(text)
	out := Envelope{ID: x.AttestationID, JSON: text, SHA256: hex.EncodeToString(sum[:])}
	// Redacted data and text that is not UTF-8 differ between the envelope and this statement.
	if bytes.Equal(signed, payload) && !bytes.Contains(payload, []byte(replacement)) {
		out.said = &s
	}
	return out, nil
}

// replacement replaces invalid UTF-8 in JSON.
const replacement = "\uFFFD"

// keyID returns the id of the certificate's key.
func keyID(c *x509.Certificate) (string, error) {
	pub, ok := c.PublicKey.(ed25519.PublicKey)
	if !ok {
		return "", fmt.Errorf("the certificate's key is %T, want Ed25519", c.PublicKey)
	}
	return dsse.KeyID(pub), nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
