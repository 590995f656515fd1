package passkey

import (
	"crypto/sha256"
	"fmt"
	"time"

	"palyra/internal/core/canonical"
)

// Vote is what a passkey says of a vote: all of it, as the journal has it.
type Vote struct {
	// Gateway is the digest of the gateway's root certificate, Voter the member.
	Gateway string `json:"gateway"`
	Voter   string `json:"voter"`
	// Approval is its ULID, Version that of the record that the person was shown, and
	// CallDigest that of the call.
	Approval   string `json:"approval"`
	Version    int64  `json:"version,string"`
	CallDigest string `json:"call_digest"`
	// Decision is "allow" or "deny".
	Decision string `json:"decision"`
	Scope    string `json:"scope"`
	Match    string `json:"match"`
	// TTL is in nanoseconds, with the default filled in.
	TTL     time.Duration `json:"ttl_ns,string"`
	Uses    int64         `json:"uses,string"`
	Reason  string        `json:"reason"`
	Surface string        `json:"surface"`
	Nonce   []byte        `json:"nonce"`
}

// Change is what a passkey says of another one, or of itself.
type Change struct {
	Gateway string `json:"gateway"`
	// By is the member whose passkey signs.
	By string `json:"by"`
	// What becomes of Credential, whose form is Text: "confirm" or "remove".
	What       string `json:"what"`
	Credential string `json:"credential"`
	Nonce      []byte `json:"nonce"`
}

// The changes.
const (
	Confirm = "confirm"
	Remove  = "remove"
)

// Statement is what a passkey signs: a Vote or a Change.
type Statement interface{ kind() string }

func (Vote) kind() string   { return "palyra passkey vote v1" }
func (Change) kind() string { return "palyra passkey change v1" }

// Challenge is what a passkey is given to sign for a statement: the SHA-256 of its
// canonical JSON (RFC 8785) beside its kind, {"kind": ..., "statement": ...}, so that
// what is signed for one can never be taken for the other.
func Challenge(s Statement) ([]byte, error) {
	text, err := canonical.Marshal(struct {
		Kind      string    `json:"kind"`
		Statement Statement `json:"statement"`
	}{s.kind(), s})
	if err != nil {
		return nil, fmt.Errorf("writing what a passkey signs: %w", err)
	}
	digest := sha256.Sum256(text)
	return digest[:], nil
}
