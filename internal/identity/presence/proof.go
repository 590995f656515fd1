package presence

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Vote is the complete statement about a vote.
type Vote struct {
	// Gateway is the digest of the gateway's root certificate; Device is the ULID of the voter's
	// device.
	Gateway string `json:"gateway"`
	Device  string `json:"device"`
	// Approval is the ULID of the approval; CallDigest is the digest of the displayed call.
	Approval   string `json:"approval"`
	CallDigest string `json:"call_digest"`
	Allow      bool   `json:"allow"`
	// Scope and Match have the values of the API. TTL is in nanoseconds.
	Scope   string        `json:"scope"`
	Match   string        `json:"match"`
	TTL     time.Duration `json:"ttl_ns,string"`
	Uses    int64         `json:"uses,string"`
	Reason  string        `json:"reason"`
	Surface string        `json:"surface"`
	Nonce   []byte        `json:"nonce"`
}

// Enrolment is a statement about a new key of a device.
type Enrolment struct {
	Gateway string `json:"gateway"`
	Device  string `json:"device"`
	// PublicKey is a SubjectPublicKeyInfo (DER).
	PublicKey []byte `json:"public_key"`
	Nonce     []byte `json:"nonce"`
}

// Confirmation is a statement that another device's key should count.
type Confirmation struct {
	Gateway string `json:"gateway"`
	// By is the device whose key signs; Device is the device whose key is confirmed.
	By        string `json:"by"`
	Device    string `json:"device"`
	KeySHA256 string `json:"key_sha256"`
	Nonce     []byte `json:"nonce"`
}

// MemberConfirmation is a statement about members that the gateway's host confirms.
type MemberConfirmation struct {
	Gateway string `json:"gateway"`
	// By is the device whose key signs.
	By string `json:"by"`
	// Members are the names as written in the request.
	Members []string `json:"members"`
	Nonce   []byte   `json:"nonce"`
}

// Statement is a statement signed by a presence key: a Vote, an Enrolment, a Confirmation or a
// MemberConfirmation.
type Statement interface{ domain() string }

// The domains prevent a signature of one kind of statement from being valid for another kind or
// another release.
func (Vote) domain() string               { return "palyra presence vote v1\n" }
func (Enrolment) domain() string          { return "palyra presence key v1\n" }
func (Confirmation) domain() string       { return "palyra presence confirm v1\n" }
func (MemberConfirmation) domain() string { return "palyra presence members v1\n" }

// text returns the signed text: the domain, then the statement as canonical JSON (RFC 8785).
func text(s Statement) ([]byte, error) {
	body, err := canonical.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing the statement for a presence key: %w", err)
	}
	return append([]byte(s.domain()), body...), nil
}

// NewKey creates a presence key.
func NewKey() (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a presence key: %w", err)
	}
	return key, nil
}

// Sign signs a statement with a presence key.
func Sign(key crypto.Signer, s Statement) ([]byte, error) {
	signed, err := text(s)
	if err != nil {
		return nil, err
	}
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		return nil, reason.Errorf(reason.ConfigInvalid, "a presence key is an Ed25519 key, and this is a %T", key.Public())
	}
	signature, err := key.Sign(rand.Reader, signed, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("signing with the presence key: %w", err)
	}
	return signature, nil
}

// ParsePublic reads a public presence key, a SubjectPublicKeyInfo (DER).
func ParsePublic(der []byte) (ed25519.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, reason.Errorf(reason.InvalidInput, "a presence key is the SubjectPublicKeyInfo of an Ed25519 key")
	}
	return key, nil
}

// Verify checks the proof of a statement by a public presence key (DER).
func Verify(public []byte, s Statement, signature []byte) error {
	key, err := ParsePublic(public)
	if err != nil {
		return err
	}
	signed, err := text(s)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, signed, signature) {
		return notProven("it is not a signature of the presence key over this")
	}
	return nil
}
