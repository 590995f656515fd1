package attest

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// The values of the member "format". A set of version 1 has no checkpoint keys. A verifier with
// such a set does not accept the checkpoint certificates of a newer export, although they lead
// to the same root: the signing keys would come from the file under test. The verifier needs a
// new key set.
const (
	KeySetFormat1 = "palyra-key-set/v1"
	KeySetFormat  = "palyra-key-set/v2"
)

// Ed25519 is the only signature algorithm of the format.
const Ed25519 = "ed25519"

// KeySet has all data that a verifier needs in addition to an envelope or an export of the
// journal. Trust in the root implies trust in every certificate in the set; compare Fingerprint
// over another channel.
type KeySet struct {
	Format  string `json:"format"`
	Gateway string `json:"gateway"`
	Keys    []Key  `json:"keys"`
	// CheckpointKeys signed the journal, the current one first.
	CheckpointKeys []CheckpointKey `json:"checkpoint_keys,omitempty"`
	// CARoot is the root certificate in PEM.
	CARoot string `json:"ca_root"`
}

// Key is one certificate of a notary key. A renewed key has one entry per certificate.
type Key struct {
	// KeyID is the OpenSSH fingerprint of the public key.
	KeyID     string `json:"key_id"`
	Algorithm string `json:"algorithm"`
	// PublicKey is the SubjectPublicKeyInfo in PEM.
	PublicKey string `json:"public_key"`
	// CertificateChain is PEM: the notary's certificate and its issuers
	// without the root.
	CertificateChain string    `json:"certificate_chain"`
	NotBefore        time.Time `json:"not_before"`
	NotAfter         time.Time `json:"not_after"`
	// Retired is true if the key no longer signs; RetiredAt is the time of its retirement.
	Retired   bool      `json:"retired"`
	RetiredAt time.Time `json:"retired_at,omitzero"`
}

// KeySet returns the public keys, the current one first, followed by the old ones. It has
// version 1: the notary does not know the journal's signing keys.
func (n *Notary) KeySet() KeySet {
	n.mu.RLock()
	defer n.mu.RUnlock()
	chain := n.current.chain
	set := KeySet{
		Format: KeySetFormat1, Gateway: n.gateway,
		CARoot: certificatePEM(chain[len(chain)-1]),
		Keys:   []Key{keyOf(PastKey{Chain: chain})},
	}
	for i := len(n.past) - 1; i >= 0; i-- {
		set.Keys = append(set.Keys, keyOf(n.past[i]))
	}
	return set
}

func keyOf(p PastKey) Key {
	leaf := p.Chain[0]
	var chain strings.Builder
	for _, c := range p.Chain[:len(p.Chain)-1] {
		chain.WriteString(certificatePEM(c))
	}
	// Every chain was checked when it was added; readers of the set reject a key without an id.
	id, _ := keyID(leaf)
	return Key{
		KeyID: id, Algorithm: Ed25519,
		PublicKey:        string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: leaf.RawSubjectPublicKeyInfo})),
		CertificateChain: chain.String(),
		NotBefore:        leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC(),
		Retired: !p.RetiredAt.IsZero(), RetiredAt: utc(p.RetiredAt),
	}
}

// JSON returns the key set in RFC 8785 form.
func (k KeySet) JSON() ([]byte, error) { return canonical.Marshal(k) }

// Fingerprint returns "sha256:" and the digest of the root certificate's DER, for comparison by
// two people. It returns "" without a root.
func (k KeySet) Fingerprint() string {
	certs, err := parsePEM(k.CARoot)
	if err != nil || len(certs) != 1 {
		return ""
	}
	sum := sha256.Sum256(certs[0].Raw)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// ParseKeySet parses an exported key set. It refuses unknown and duplicate members.
func ParseKeySet(text []byte) (KeySet, error) {
	var k KeySet
	if err := jsonv2.Unmarshal(text, &k, jsonv2.RejectUnknownMembers(true)); err != nil {
		return KeySet{}, reason.Errorf(reason.VerificationFailed, "reading key set: %w", err)
	}
	switch {
	case k.Format == KeySetFormat && len(k.CheckpointKeys) > 0, k.Format == KeySetFormat1 && len(k.CheckpointKeys) == 0:
		return k, nil
	case k.Format == KeySetFormat || k.Format == KeySetFormat1:
		return KeySet{}, reason.Errorf(reason.VerificationFailed, "reading key set: it is of format %q and has %d checkpoint keys", k.Format, len(k.CheckpointKeys))
	}
	return KeySet{}, reason.Errorf(reason.VerificationFailed, "reading key set: format is %q, want %q or %q", k.Format, KeySetFormat, KeySetFormat1)
}

// window is the period in which every certificate of a chain is valid.
type window struct{ from, to time.Time }

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && !t.After(w.to) }

// verifyChain proves that chain[0] is a certificate for the path, such as a notary's
// certificate. Each certificate must be signed by the next, up to the self-signed last one.
// They are checked at a time at which all are valid, not at the current time.
func verifyChain(chain []*x509.Certificate, path string) (window, error) {
	root := chain[len(chain)-1]
	if err := root.CheckSignatureFrom(root); err != nil {
		return window{}, fmt.Errorf("the last certificate is not a self-signed root: %w", err)
	}
	w := window{root.NotBefore, root.NotAfter}
	for _, c := range chain {
		if c.NotBefore.After(w.from) {
			w.from = c.NotBefore
		}
		if c.NotAfter.Before(w.to) {
			w.to = c.NotAfter
		}
	}
	if w.to.Before(w.from) {
		return window{}, errors.New("the certificates of the chain are never valid together")
	}
	roots, middle := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	for _, c := range chain[1 : len(chain)-1] {
		middle.AddCert(c)
	}
	leaf := chain[0]
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: middle, CurrentTime: w.from,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}); err != nil {
		return window{}, fmt.Errorf("the %s's certificate does not lead to the root: %w", role(path), err)
	}
	return w, isFor(leaf, path)
}

// The paths in the names of signers.
const (
	notaryPath  = "/notary/"
	journalPath = "/journal/"
)

func role(path string) string { return strings.Trim(path, "/") }

// isFor distinguishes a notary's certificate from certificates of the journal and of devices by its
// name spiffe://<trust domain>/notary/<name>, never by a common name.
func isFor(c *x509.Certificate, path string) error {
	if c.IsCA || c.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return errors.New("the certificate is not for signatures")
	}
	if len(c.URIs) != 1 || !isName(c.URIs[0], path) {
		return fmt.Errorf("the certificate does not name a %s", role(path))
	}
	return nil
}

func isName(u *url.URL, path string) bool {
	rest, ok := strings.CutPrefix(u.Path, path)
	return u.Scheme == "spiffe" && ok && rest != "" && !strings.Contains(rest, "/")
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func parsePEM(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	rest := []byte(text)
	for len(strings.TrimSpace(string(rest))) > 0 {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("not PEM certificates")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
