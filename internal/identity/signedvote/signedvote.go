// Package signedvote is a vote that its voter's device signed, so that others can bring it
// to the gateway: whoever carries it can neither change it nor make another.
package signedvote

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Vote is what is signed.
type Vote struct {
	// Gateway is the trust domain of the gateway that it is for.
	Gateway  string `json:"gateway"`
	Approval string `json:"approval_id"`
	// Version and CallDigest are those of the approval as its voter saw it.
	Version    int64     `json:"version"`
	CallDigest string    `json:"call_digest"`
	Allow      bool      `json:"allow"`
	Reason     string    `json:"reason,omitempty"`
	SignedAt   time.Time `json:"signed_at"`
	// ExpiresAt is at most Longest after SignedAt.
	ExpiresAt time.Time `json:"expires_at"`
}

// Longest is how long a signed vote is good for; skew is how far the clock of a device may
// be from ours.
const (
	Longest = 15 * time.Minute
	skew    = time.Minute
)

// Signed is a vote with its proof, as it travels.
type Signed struct {
	Vote Vote `json:"vote"`
	// Chain is the certificate of the device and what certifies it, each the base64 of
	// its DER.
	Chain []string `json:"chain"`
	// Signature is base64: of an Ed25519 key as it is, of an ECDSA key over SHA-256 in
	// ASN.1 (FIPS 186-5).
	Signature string `json:"signature"`
}

// domain keeps this signature apart from any other that a device's key makes.
const domain = "palyra vote v1\n"

func text(v Vote) ([]byte, error) {
	v.SignedAt, v.ExpiresAt = v.SignedAt.UTC(), v.ExpiresAt.UTC()
	body, err := canonical.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing a vote: %w", err)
	}
	return append([]byte(domain), body...), nil
}

// Sign signs a vote with the key of a device.
func Sign(key crypto.Signer, chain []*x509.Certificate, v Vote) (Signed, error) {
	signed, err := text(v)
	if err != nil {
		return Signed{}, err
	}
	hash := crypto.Hash(0)
	if _, is := key.Public().(ed25519.PublicKey); !is {
		sum := sha256.Sum256(signed)
		signed, hash = sum[:], crypto.SHA256
	}
	signature, err := key.Sign(rand.Reader, signed, hash)
	if err != nil {
		return Signed{}, fmt.Errorf("signing a vote: %w", err)
	}
	s := Signed{Vote: v, Signature: base64.StdEncoding.EncodeToString(signature)}
	for _, c := range chain {
		s.Chain = append(s.Chain, base64.StdEncoding.EncodeToString(c.Raw))
	}
	return s, nil
}

// mostChain bounds how many certificates are read.
const mostChain = 5

// Parse reads a signed vote. Nothing of it is verified yet.
func Parse(body []byte) (s Signed, chain []*x509.Certificate, err error) {
	strict, err := canonical.JSON(body)
	if err != nil {
		return s, nil, malformed(err)
	}
	if err := canonical.Read(strict, &s); err != nil {
		return s, nil, malformed(err)
	}
	if len(s.Chain) == 0 || len(s.Chain) > mostChain {
		return s, nil, malformed(fmt.Errorf("it has %d certificates", len(s.Chain)))
	}
	for _, text := range s.Chain {
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return s, nil, malformed(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return s, nil, malformed(err)
		}
		chain = append(chain, c)
	}
	return s, chain, nil
}

func malformed(err error) error {
	return reason.Errorf(reason.InvalidInput, "this is no signed vote: %w", err).
		WithRemedy("`palyra approvals sign ID --allow` makes one (docs/notifications.md).")
}

// Verify checks that the key of a certificate signed the vote for this gateway, and that
// it is still good. Whose certificate it is, and whether it counts, is identity's to say.
// Its errors are reason.Unauthenticated.
func (s Signed) Verify(c *x509.Certificate, gateway string, now time.Time) error {
	refused := func(format string, args ...any) error {
		return reason.Errorf(reason.Unauthenticated, "the vote does not count: "+format, args...).
			WithRemedy("Have it signed again: `palyra approvals sign ID --allow`.")
	}
	signed, err := text(s.Vote)
	if err != nil {
		return refused("%w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return refused("its signature is not base64")
	}
	sum := sha256.Sum256(signed)
	good := false
	switch key := c.PublicKey.(type) {
	case ed25519.PublicKey:
		good = ed25519.Verify(key, signed, signature)
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(key, sum[:], signature)
	}
	v := s.Vote
	switch {
	case !good:
		return refused("its signature is not of the device's key")
	case v.Gateway != gateway:
		return refused("it is for another gateway")
	case v.ExpiresAt.Sub(v.SignedAt) > Longest || v.SignedAt.After(now.Add(skew)):
		return refused("it is good for longer than %s, or from a time that is to come", Longest)
	case now.After(v.ExpiresAt):
		return refused("it expired at %s", v.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}
