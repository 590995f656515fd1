package skill

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
)

// PayloadType is the type of the envelope's payload.
const PayloadType = "application/vnd.palyra.skill.v1+json"

// maxEnvelope is the maximum size of the signature in bytes.
const maxEnvelope = 256 << 10

// claims are the signed statements of a publisher: its identity, the skill and version, and every
// other entry.
type claims struct {
	ID        string `json:"id"`
	Version   string `json:"version"`
	Publisher string `json:"publisher"`
	// PublicKey is the signing key in base64: 32 bytes of Ed25519.
	PublicKey string `json:"public_key"`
	// Entries are the digests of all entries except the signature, by name.
	Entries map[string]string `json:"entries"`
}

// Signer is the signer of a package. The trust store decides whether the key belongs to the
// publisher. The package contains its signing key, so that `palyra skills verify` needs no
// gateway, and the key that would be pinned can be displayed to approvers of a first package.
type Signer struct {
	Publisher string
	// KeyID is the OpenSSH fingerprint of PublicKey.
	KeyID     string
	PublicKey ed25519.PublicKey
}

func checksum(text []byte) uint32 { return crc32.ChecksumIEEE(text) }

func (p *Package) claims(public ed25519.PublicKey) claims {
	c := claims{
		ID: p.Manifest.ID, Version: p.Manifest.Version, Publisher: p.Manifest.Publisher,
		PublicKey: base64.StdEncoding.EncodeToString(public), Entries: map[string]string{},
	}
	for _, e := range p.entries() {
		if e.name != SignatureEntry {
			c.Entries[e.name] = canonical.Digest(e.text)
		}
	}
	return c
}

// Sign returns the file of the package with a new signature.
func Sign(p *Package, key ed25519.PrivateKey) ([]byte, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || len(key) != ed25519.PrivateKeySize {
		return nil, reason.Errorf(reason.InvalidInput, "the key is not an Ed25519 key").WithRemedy("Create one with `palyra skills keygen`.")
	}
	payload, err := canonical.Marshal(p.claims(public))
	if err != nil {
		return nil, fmt.Errorf("encoding the signed claims: %w", err)
	}
	signed := *p
	if signed.Envelope, err = dsse.Sign(PayloadType, payload, dsse.KeyID(public), key); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return signed.encode()
}

// Verify checks that the key in the signature signed every entry, the publisher, the id and the
// version. It does not decide whether that key is trusted.
func Verify(p *Package) (Signer, error) {
	if p.Envelope == nil {
		return Signer{}, unproven("it is not signed").WithRemedy("Sign it with `palyra skills sign`, or get a signed package from its publisher.")
	}
	opened, err := dsse.Open(p.Envelope, PayloadType, maxEnvelope)
	if err != nil {
		return Signer{}, unproven("%s: %w", SignatureEntry, err)
	}
	var claimed claims
	if err := jsonv2.Unmarshal(opened.Payload, &claimed, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Signer{}, unproven("%s: reading its payload: %w", SignatureEntry, err)
	}
	public, err := base64.StdEncoding.Strict().DecodeString(claimed.PublicKey)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return Signer{}, unproven("%s: its public key is not an Ed25519 key", SignatureEntry)
	}
	signer := Signer{Publisher: claimed.Publisher, KeyID: dsse.KeyID(public), PublicKey: public}
	if opened.KeyID != signer.KeyID {
		return Signer{}, unproven("%s: it names the key %s, but contains %s", SignatureEntry, opened.KeyID, signer.KeyID)
	}
	if err := opened.Verify(public); err != nil {
		return Signer{}, unproven("%s: %w", SignatureEntry, err)
	}
	if err := claimed.compare(p.claims(public)); err != nil {
		return Signer{}, err
	}
	return signer, nil
}

// compare returns the first difference between a package and its signed claims.
func (c claims) compare(is claims) error {
	for _, claim := range []struct{ what, said, is string }{
		{"publisher", c.Publisher, is.Publisher}, {"id", c.ID, is.ID}, {"version", c.Version, is.Version},
	} {
		if claim.said != claim.is {
			return unproven("%s has the %s %q, but %q was signed", ManifestEntry, claim.what, claim.is, claim.said)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is.Entries)) {
		switch signed, there := c.Entries[name]; {
		case !there:
			return unproven("the entry %q was not signed", name)
		case signed != is.Entries[name]:
			return unproven("the entry %q was changed after it was signed", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Entries)) {
		if _, there := is.Entries[name]; !there {
			return unproven("the entry %q was signed, but is missing", name)
		}
	}
	return nil
}

func unproven(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.VerificationFailed, "the package does not verify: %w", fmt.Errorf(format, args...)).
		WithRemedy("Download it again from its publisher, and verify its digest over a separate channel.")
}
