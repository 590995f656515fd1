// Package token implements the API's bearer credentials, for MCP clients, CI and hooks, which
// cannot hold a device's key.
//
// A token acts as one member, never beyond its scopes, and never beyond the current permissions
// of its creator. It cannot decide approvals, because a credential that can be copied does not
// prove a person. Only the SHA-256 of its secret is stored.
package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Token is the gateway's record of a token.
type Token struct {
	// ID is a ULID. It identifies the caller's credential in place of a device id.
	ID        string
	Name      string
	Principal access.Principal
	CreatedBy access.Principal
	// Device is the device with which the token was created; "" for a token created before the
	// gateway recorded the device.
	Device string
	Scopes []access.Permission
	// Addresses are the addresses from which the token may be used; an empty list permits all.
	Addresses []netip.Prefix
	CreatedAt time.Time
	ExpiresAt time.Time
	// LastUsedAt is accurate to a minute; zero for a token that was never used.
	LastUsedAt time.Time
	// RevokedAt is zero unless the token was revoked.
	RevokedAt time.Time
	RevokedBy access.Principal
	// Digest is the SHA-256 of the secret.
	Digest [sha256.Size]byte
}

// Revoked reports whether the token was revoked.
func (t Token) Revoked() bool { return !t.RevokedAt.IsZero() }

// Store stores tokens.
type Store interface {
	// Tokens returns all tokens, including revoked ones, ordered by ID.
	Tokens(ctx context.Context) ([]Token, error)
	// AddToken and ReplaceToken make a change and its event durable completely, or not at all. They
	// return reason.AlreadyExists and reason.NotFound. A revocation is never reverted.
	AddToken(ctx context.Context, t Token, e event.Draft) error
	ReplaceToken(ctx context.Context, t Token, e event.Draft) error
	// UsedTokens stores the times of the last uses of tokens, by ID.
	UsedTokens(ctx context.Context, at map[string]time.Time) error
}

// Prefix is the prefix of every token, with which secret scanners detect tokens.
const Prefix = "pal_"

// secretBytes is the length of a secret: 256 bits.
const secretBytes = 32

// form is "pal_", the ULID in lower case, "_", and the secret in hex.
var form = lazyregexp.New(`^pal_([0-9a-z]{26})_([0-9a-f]{64})$`)

// text returns the token in the form for its holder.
func text(id string, secret [secretBytes]byte) string {
	return Prefix + strings.ToLower(id) + "_" + hex.EncodeToString(secret[:])
}

// parse splits a token. It does not check whether the token exists.
func parse(s string) (id string, secret [secretBytes]byte, ok bool) {
	parts := form.FindStringSubmatch(s)
	if parts == nil {
		return "", secret, false
	}
	_, err := hex.Decode(secret[:], []byte(parts[2]))
	return strings.ToUpper(parts[1]), secret, err == nil
}

// Redact returns the part of a token that may be displayed: its id.
func Redact(s string) string {
	if id, _, ok := parse(s); ok {
		return Prefix + strings.ToLower(id) + "_..."
	}
	return Prefix + "..."
}

// opens reports whether a secret belongs to the token, in constant time.
func (t Token) opens(secret [secretBytes]byte) bool {
	digest := sha256.Sum256(secret[:])
	return subtle.ConstantTimeCompare(digest[:], t.Digest[:]) == 1
}

// usable returns the reason why a token with a valid secret may not be used now.
func (t Token) usable(now time.Time) error {
	switch {
	case t.Revoked():
		return reason.Errorf(reason.Unauthenticated, "the token %s (%s) was revoked at %s", t.Name, t.ID, t.RevokedAt.Format(time.RFC3339)).
			WithRemedy("Create another token: `palyra tokens create`.")
	case !now.Before(t.ExpiresAt):
		return reason.Errorf(reason.Unauthenticated, "the token %s (%s) expired at %s", t.Name, t.ID, t.ExpiresAt.Format(time.RFC3339)).
			WithRemedy("Create another token: `palyra tokens create`.")
	}
	return nil
}

// allows reports whether the token may be used from an address.
func (t Token) allows(from netip.Addr) bool {
	return len(t.Addresses) == 0 || slices.ContainsFunc(t.Addresses, func(p netip.Prefix) bool { return p.Contains(from.Unmap()) })
}
