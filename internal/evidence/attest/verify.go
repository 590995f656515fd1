package attest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
)

// MaxEnvelope is the maximum size of an envelope: 8 MiB.
const MaxEnvelope = 8 << 20

// Verified is an attestation with a verified signature and form.
type Verified struct {
	Statement Statement
	// Predicate is the predicate of the statement.
	Predicate Predicate
	KeyID     string
	// Certificate is the certificate of the notary that was valid at the time of the signature.
	Certificate *x509.Certificate
	// SHA256 is the lower-case hex digest of the envelope as received.
	SHA256 string
}

// CheckResult proves that the attestation covers exactly the bytes of result.
func (v Verified) CheckResult(result []byte) error {
	sum := sha256.Sum256(result)
	if got := hex.EncodeToString(sum[:]); got != v.Predicate.ExecutionSHA256 {
		return reason.Errorf(reason.VerificationFailed, "the result has SHA-256 %s, the attestation covers %s", got, v.Predicate.ExecutionSHA256)
	}
	return nil
}

// Verify checks one envelope against an exported key set, offline. It is strict: it rejects
// unknown members, other payload or predicate types, more than one signature, and inconsistent
// parts. It also rejects a chain that does not lead to the set's root, and a time outside the
// certificates' validity or after the key's retirement. The error has the reason
// VerificationFailed and describes the fault.
func Verify(envelope []byte, keys KeySet) (Verified, error) {
	v, err := NewVerifier(keys)
	if err != nil {
		return Verified{}, err
	}
	return v.Verify(envelope)
}

// Verifier checks many envelopes against one key set, whose certificates are verified once. It
// is safe for concurrent use.
type Verifier struct {
	gateway string
	keys    map[string][]trusted
}

// trusted is a certificate of a key that leads to the root.
type trusted struct {
	public    ed25519.PublicKey
	leaf      *x509.Certificate
	window    window
	retiredAt time.Time
}

// NewVerifier verifies the key set: every certificate leads to the root and every member agrees
// with the certificate.
func NewVerifier(set KeySet) (*Verifier, error) {
	roots, err := parsePEM(set.CARoot)
	if err != nil || len(roots) != 1 {
		return nil, reason.Errorf(reason.VerificationFailed, "key set: ca_root is not one certificate in PEM")
	}
	if len(set.Keys) == 0 {
		return nil, reason.Errorf(reason.VerificationFailed, "key set: it contains no keys")
	}
	v := &Verifier{gateway: set.Gateway, keys: make(map[string][]trusted, len(set.Keys))}
	for _, k := range set.Keys {
		t, err := trust(k, roots[0])
		if err != nil {
			return nil, reason.Errorf(reason.VerificationFailed, "key set: key %s: %w", k.KeyID, err)
		}
		if host := t.leaf.URIs[0].Host; host != set.Gateway {
			return nil, reason.Errorf(reason.VerificationFailed, "key set: key %s is certified for gateway %q, the set is of %q", k.KeyID, host, set.Gateway)
		}
		v.keys[k.KeyID] = append(v.keys[k.KeyID], t)
	}
	if err := set.checkCheckpointKeys(); err != nil {
		return nil, reason.Errorf(reason.VerificationFailed, "key set: %w", err)
	}
	return v, nil
}

func trust(k Key, root *x509.Certificate) (trusted, error) {
	chain, err := parsePEM(k.CertificateChain)
	if err != nil {
		return trusted{}, fmt.Errorf("certificate_chain: %w", err)
	}
	if len(chain) == 0 {
		return trusted{}, errors.New("certificate_chain is empty")
	}
	w, err := verifyChain(append(chain, root), notaryPath)
	if err != nil {
		return trusted{}, err
	}
	leaf := chain[0]
	pub, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok || k.Algorithm != Ed25519 {
		return trusted{}, fmt.Errorf("algorithm is %q with a %T, want %s", k.Algorithm, leaf.PublicKey, Ed25519)
	}
	id, err := keyID(leaf)
	if err != nil {
		return trusted{}, err
	}
	block, _ := pem.Decode([]byte(k.PublicKey))
	switch {
	case block == nil || string(block.Bytes) != string(leaf.RawSubjectPublicKeyInfo):
		return trusted{}, errors.New("public_key differs from the key of the certificate")
	case k.KeyID != id:
		return trusted{}, errors.New("key_id is not the fingerprint of the public key")
	case !k.NotBefore.Equal(leaf.NotBefore) || !k.NotAfter.Equal(leaf.NotAfter):
		return trusted{}, errors.New("not_before or not_after differs from the certificate")
	case k.Retired == k.RetiredAt.IsZero():
		return trusted{}, errors.New("retired and retired_at do not agree")
	}
	return trusted{public: pub, leaf: leaf, window: w, retiredAt: k.RetiredAt}, nil
}

// Verify checks one envelope; see the function Verify.
func (v *Verifier) Verify(text []byte) (Verified, error) {
	out, err := v.verify(text)
	if err != nil {
		return Verified{}, reason.Errorf(reason.VerificationFailed, "attestation does not verify: %w", err)
	}
	return out, nil
}

func (v *Verifier) verify(text []byte) (Verified, error) {
	signed, err := dsse.Open(text, PayloadType, MaxEnvelope)
	if err != nil {
		return Verified{}, err
	}
	certs, ok := v.keys[signed.KeyID]
	if !ok {
		return Verified{}, fmt.Errorf("the key set has no key %q", signed.KeyID)
	}
	if err := signed.Verify(certs[0].public); err != nil {
		return Verified{}, err
	}
	s, err := readStatement(signed.Payload)
	if err != nil {
		return Verified{}, err
	}
	if s.Predicate.Gateway != v.gateway {
		return Verified{}, fmt.Errorf("it is of gateway %q, the key set is of %q", s.Predicate.Gateway, v.gateway)
	}
	leaf, err := validAt(certs, s.Predicate.Times.AttestedAt)
	if err != nil {
		return Verified{}, err
	}
	sum := sha256.Sum256(text)
	return Verified{
		Statement: s, Predicate: s.Predicate, KeyID: signed.KeyID, Certificate: leaf,
		SHA256: hex.EncodeToString(sum[:]),
	}, nil
}

// Read returns the statement of an envelope without verifying it, for readers that trust the
// gateway.
func Read(envelope []byte) (Statement, error) {
	signed, err := dsse.Open(envelope, PayloadType, MaxEnvelope)
	if err != nil {
		return Statement{}, err
	}
	return readStatement(signed.Payload)
}

func readStatement(payload []byte) (Statement, error) {
	var s Statement
	if err := jsonv2.Unmarshal(payload, &s, jsonv2.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true)); err != nil {
		return Statement{}, fmt.Errorf("reading statement: %w", err)
	}
	return s, s.check()
}

// validAt finds the certificate that was valid for the key at the given time. A time after the
// retirement is refused, so that a thief of an old key cannot sign with a later date. The journal
// prevents an earlier date.
func validAt(certs []trusted, at time.Time) (*x509.Certificate, error) {
	err := errors.New("the key has no certificate")
	for _, c := range certs {
		switch {
		case !c.window.holds(at):
			err = fmt.Errorf("it was signed at %s, the notary's certificate is valid from %s to %s", stamp(at), stamp(c.window.from), stamp(c.window.to))
		case !c.retiredAt.IsZero() && at.After(c.retiredAt):
			return nil, fmt.Errorf("it was signed at %s, the key was retired at %s", stamp(at), stamp(c.retiredAt))
		default:
			return c.leaf, nil
		}
	}
	return nil, err
}
