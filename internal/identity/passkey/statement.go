package passkey

import (
	"crypto/sha256"
	"fmt"
	"time"

	"palyra/internal/core/canonical"
)

// Vote is a passkey's statement about a vote, as recorded in the journal.
type Vote struct {
	// Gateway is the digest of the gateway's root certificate; Voter is the member.
	Gateway string `json:"gateway"`
	Voter   string `json:"voter"`
	// Approval is the ULID of the approval, Version is the version of the displayed record, and
	// CallDigest is the digest of the call.
	Approval   string `json:"approval"`
	Version    int64  `json:"version,string"`
	CallDigest string `json:"call_digest"`
	// Decision is "allow" or "deny".
	Decision string `json:"decision"`
	Scope    string `json:"scope"`
	Match    string `json:"match"`
	// TTL is in nanoseconds, with the default applied.
	TTL     time.Duration `json:"ttl_ns,string"`
	Uses    int64         `json:"uses,string"`
	Reason  string        `json:"reason"`
	Surface string        `json:"surface"`
	Nonce   []byte        `json:"nonce"`
}

// Change is a passkey's statement about another passkey, or itself.
type Change struct {
	Gateway string `json:"gateway"`
	// By is the member whose passkey signs.
	By string `json:"by"`
	// The action on Credential: "confirm" or "remove". Credential has the form of Text.
	What       string `json:"what"`
	Credential string `json:"credential"`
	Nonce      []byte `json:"nonce"`
}

// The changes.
const (
	Confirm = "confirm"
	Remove  = "remove"
)

// Statement is a statement signed by a passkey: a Vote or a Change.
type Statement interface{ kind() string }

func (Vote) kind() string   { return "palyra passkey vote v1" }
func (Change) kind() string { return "palyra passkey change v1" }

// Challenge returns the challenge for a statement: the SHA-256 of the canonical JSON (RFC 8785) of
// {"kind": ..., "statement": ...}. The kind prevents a signature for one kind from being accepted
// for the other.
func Challenge(s Statement) ([]byte, error) {
	text, err := canonical.Marshal(struct {
		Kind      string    `json:"kind"`
		Statement Statement `json:"statement"`
	}{s.kind(), s})
	if err != nil {
		return nil, fmt.Errorf("writing the statement for a passkey: %w", err)
	}
	digest := sha256.Sum256(text)
	return digest[:], nil
}
