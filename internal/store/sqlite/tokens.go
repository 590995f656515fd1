package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/token"
)

// TokenStore keeps API tokens in the embedded store.
type TokenStore struct{ db *DB }

var _ token.Store = TokenStore{}

// NewTokens returns the tokens in db.
func NewTokens(db *DB) TokenStore { return TokenStore{db} }

const apiColumns = `id, name, principal, created_by, scopes, addresses, digest, created_at, expires_at, last_used_at, revoked_at, revoked_by, device`

// Tokens returns all tokens, revoked ones included, by ID.
func (s TokenStore) Tokens(ctx context.Context) ([]token.Token, error) {
	return list(ctx, s.db, "reading tokens", scanToken, "SELECT "+apiColumns+" FROM tokens ORDER BY id")
}

func scanToken(r *Row) (token.Token, error) {
	t := token.Token{
		ID: r.Text(0), Name: r.Text(1), CreatedAt: r.Time(7), ExpiresAt: r.Time(8), LastUsedAt: r.Time(9), RevokedAt: r.Time(10), Device: r.Text(12),
	}
	if n := copy(t.Digest[:], r.Bytes(6)); n != len(t.Digest) {
		return t, fmt.Errorf("token %s: its digest has %d bytes", t.ID, n)
	}
	if err := json.Unmarshal(r.Bytes(4), &t.Scopes); err != nil {
		return t, fmt.Errorf("scopes of token %s: %w", t.ID, err)
	}
	if err := json.Unmarshal(r.Bytes(5), &t.Addresses); err != nil {
		return t, fmt.Errorf("addresses of token %s: %w", t.ID, err)
	}
	if err := t.Principal.UnmarshalText(r.Bytes(2)); err != nil {
		return t, err
	}
	if err := t.CreatedBy.UnmarshalText(r.Bytes(3)); err != nil {
		return t, err
	}
	return t, t.RevokedBy.UnmarshalText(r.Bytes(11))
}

// AddToken stores a token with its event.
func (s TokenStore) AddToken(ctx context.Context, t token.Token, e event.Draft) error {
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return fmt.Errorf("scopes of token %s: %w", t.ID, err)
	}
	addresses, err := json.Marshal(t.Addresses)
	if err != nil {
		return fmt.Errorf("addresses of token %s: %w", t.ID, err)
	}
	return s.change(ctx, e, func(tx *Tx) error {
		n, err := tx.Exec("INSERT INTO tokens ("+apiColumns+`)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING`,
			t.ID, t.Name, t.Principal.String(), t.CreatedBy.String(), string(scopes), string(addresses), t.Digest[:], t.CreatedAt, t.ExpiresAt,
			t.LastUsedAt, t.RevokedAt, t.RevokedBy.String(), t.Device)
		if err != nil {
			return fmt.Errorf("adding token %s: %w", t.ID, err)
		}
		if n == 0 {
			return reason.Errorf(reason.AlreadyExists, "the token %s already exists", t.ID)
		}
		return nil
	})
}

// ReplaceToken stores a revocation with its event; no other field of a token changes.
func (s TokenStore) ReplaceToken(ctx context.Context, t token.Token, e event.Draft) error {
	return s.change(ctx, e, func(tx *Tx) error {
		n, err := tx.Exec("UPDATE tokens SET revoked_at = ?2, revoked_by = ?3 WHERE id = ?1 AND revoked_at IS NULL",
			t.ID, t.RevokedAt, t.RevokedBy.String())
		if err != nil {
			return fmt.Errorf("changing token %s: %w", t.ID, err)
		}
		if n == 0 {
			return reason.Errorf(reason.NotFound, "token %s not found", t.ID)
		}
		return nil
	})
}

func (s TokenStore) change(ctx context.Context, e event.Draft, write func(*Tx) error) error {
	_, err := s.db.Commit(ctx, Unit{Events: []event.Draft{e}, Check: write})
	return err
}

// UsedTokens stores when tokens were last used.
func (s TokenStore) UsedTokens(ctx context.Context, at map[string]time.Time) error {
	_, err := s.db.Commit(ctx, Unit{Check: func(tx *Tx) error {
		for id, when := range at {
			if _, err := tx.Exec("UPDATE tokens SET last_used_at = ?2 WHERE id = ?1", id, when); err != nil {
				return fmt.Errorf("noting the use of token %s: %w", id, err)
			}
		}
		return nil
	}})
	return err
}
