// Package tokentest has an embedded store whose writes can fail, and the test suite
// of token.Store.
package tokentest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/token"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// Store is an embedded store whose writes can fail.
type Store struct {
	sqlite.TokenStore
	*sqlitetest.Faulty
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	f := sqlitetest.NewFaulty(t)
	return &Store{sqlite.NewTokens(f.DB), f}
}

// AddToken implements token.Store.
func (s *Store) AddToken(ctx context.Context, t token.Token, e event.Draft) error {
	return s.Write(func() error { return s.TokenStore.AddToken(ctx, t, e) })
}

// ReplaceToken implements token.Store.
func (s *Store) ReplaceToken(ctx context.Context, t token.Token, e event.Draft) error {
	return s.Write(func() error { return s.TokenStore.ReplaceToken(ctx, t, e) })
}

// UsedTokens implements token.Store.
func (s *Store) UsedTokens(ctx context.Context, at map[string]time.Time) error {
	return s.Write(func() error { return s.TokenStore.UsedTokens(ctx, at) })
}

// RunStore is the test suite of token.Store. journaled returns the number of events with the
// code TokenMade or TokenRevoked.
func RunStore(t *testing.T, s token.Store, journaled func() int) {
	t.Helper()
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	made := token.Token{
		ID: "01JNA3Q0G0TEST000000000001", Name: "ci", Principal: access.Agent("bot"), CreatedBy: access.User("ann"),
		Scopes: []access.Permission{access.PermToolCall, access.PermToolList}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Device: "01JNA3Q0G0TEST0000000DEV01", CreatedAt: at, ExpiresAt: at.Add(time.Hour), Digest: [32]byte{1, 2, 3},
	}
	other := token.Token{
		ID: "01JNA3Q0G0TEST000000000002", Name: "hook", Principal: access.User("ann"), CreatedBy: access.User("ann"),
		Scopes: []access.Permission{access.PermJournalRead}, CreatedAt: at, ExpiresAt: at.Add(2 * time.Hour),
	}
	draft := func(code event.Code, t token.Token) event.Draft {
		return event.Draft{Code: code, Actor: "user:ann", Subject: t.ID, Payload: []byte(`{"token_id":"` + t.ID + `"}`)}
	}
	must.Do(t, s.AddToken(ctx, other, draft(event.TokenMade, other)))
	must.Do(t, s.AddToken(ctx, made, draft(event.TokenMade, made)))
	if err := s.AddToken(ctx, made, draft(event.TokenMade, made)); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("adding a token twice: %v", err)
	}
	if n := journaled(); n != 2 {
		t.Errorf("%d events of 2 tokens", n)
	}
	same(t, s, made, other)

	must.Do(t, s.UsedTokens(ctx, map[string]time.Time{made.ID: at.Add(time.Minute), "01JNA3Q0G0TEST00000000000X": at}))
	made.LastUsedAt = at.Add(time.Minute)
	same(t, s, made, other)

	made.RevokedAt, made.RevokedBy = at.Add(time.Minute), access.User("bob")
	must.Do(t, s.ReplaceToken(ctx, made, draft(event.TokenRevoked, made)))
	same(t, s, made, other)
	back := made
	back.RevokedAt, back.RevokedBy = time.Time{}, access.Principal{}
	missing := made
	missing.ID = "01JNA3Q0G0TEST000000000003"
	for _, bad := range []token.Token{back, missing} {
		if err := s.ReplaceToken(ctx, bad, draft(event.TokenRevoked, bad)); reason.Of(err) != reason.NotFound {
			t.Errorf("replacing %s: %v", bad.ID, err)
		}
	}
	same(t, s, made, other)
	if n := journaled(); n != 3 {
		t.Errorf("%d events of 3 changes", n)
	}
}

func same(t *testing.T, s token.Store, want ...token.Token) {
	t.Helper()
	got := must.Get(s.Tokens(t.Context()))(t)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Errorf("tokens (-want +got):\n%s", d)
	}
}
