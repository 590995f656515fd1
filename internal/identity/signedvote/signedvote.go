// Package signedvote implements votes that are signed by the voter's device, so that another
// party can deliver them to the gateway. That party can neither change a vote nor create one.
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

// Vote is the signed statement.
type Vote struct {
	// Gateway is the trust domain of the gateway for which the vote is intended.
	Gateway  string `json:"gateway"`
	Approval string `json:"approval_id"`
	// Version and CallDigest identify the approval as displayed to the voter.
	Version    int64     `json:"version"`
	CallDigest string    `json:"call_digest"`
	Allow      bool      `json:"allow"`
	Reason     string    `json:"reason,omitempty"`
	SignedAt   time.Time `json:"signed_at"`
	// ExpiresAt is at most Longest after SignedAt.
	ExpiresAt time.Time `json:"expires_at"`
}

// Longest is the validity of a signed vote; skew is the permitted difference of a device's clock.
const (
	Longest = 15 * time.Minute
	skew    = time.Minute
)

// Signed is a vote with its proof, in the form in which it is sent.
type Signed struct {
	Vote Vote `json:"vote"`
	// Chain is the certificate of the device and its issuers, each the base64 of its DER.
	Chain []string `json:"chain"`
	// Signature is the base64 of the plain signature of an Ed25519 key, or of the ASN.1 signature
	// of an ECDSA key over SHA-256 (FIPS 186-5).
	Signature string `json:"signature"`
}

// domain separates this signature from all other signatures of a device's key.
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

// mostChain is the maximum number of certificates.
const mostChain = 5

// Parse parses a signed vote without verifying it.
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
	return reason.Errorf(reason.InvalidInput, "this is not a signed vote: %w", err).
		WithRemedy("`palyra approvals sign ID --allow` makes one (docs/notifications.md).")
}

// Verify checks that the key of a certificate signed the vote for this gateway, and that the vote
// is still valid. Package identity checks the owner and validity of the certificate. Its errors are
// reason.Unauthenticated.
func (s Signed) Verify(c *x509.Certificate, gateway string, now time.Time) error {
	refused := func(format string, args ...any) error {
		return reason.Errorf(reason.Unauthenticated, "the vote is not counted: "+format, args...).
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
