package vault_test

import (
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

// world is a vault on an embedded store, with a time that tests advance.
type world struct {
	*vault.Service

	store   *vaulttest.Store
	keys    *vaulttest.Keys
	wrapper *vault.Wrapper
	judge   vaulttest.Judge
	// holders maps scopes to their holders.
	holders map[string]string
	at      time.Time
	// before is an earlier copy of a record.
	before vault.Record
}

var (
	ann = caller("ann")
	bob = caller("bob")
	bot = access.Caller{Principal: access.Agent("bot"), OnBehalfOf: access.User("ann")}

	token = vault.Ref{Scope: "global", Key: "token"}
	// modelKey is the gateway's own secret.
	modelKey = vault.Ref{Scope: "global", Key: "anthropic"}
)

func caller(name string) access.Caller {
	return access.Caller{Principal: access.User(name), OnBehalfOf: access.User(name)}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	all := []access.Permission{access.PermVaultList, access.PermVaultPut, access.PermVaultGet, access.PermVaultDelete, access.PermVaultRekey, access.PermSecretLease}
	w := &world{
		store: vaulttest.NewStore(t), keys: vaulttest.NewKeys(), at: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
		judge: vaulttest.Judge{ann.Principal: all, bob.Principal: all[:1], bot.Principal: {access.PermSecretLease}},
	}
	w.holders = map[string]string{"agent:bot": "user:ann", "agent:x": "user:ann", "skill:web": "SHA256:first"}
	w.wrapper = vault.NewWrapper(w.keys, w.store)
	w.Service = must.Get(vault.New(vault.Config{Store: w.store, Keys: w.wrapper, Judge: w.judge, Holders: w.holder, Own: []vault.Ref{modelKey}, Now: func() time.Time { return w.at }}))(t)
	return w
}

// holder implements vault.Holders.
func (w *world) holder(kind vault.Kind, id string) string { return w.holders[string(kind)+":"+id] }

func (w *world) put(t *testing.T, ref vault.Ref, value string) vault.Secret {
	t.Helper()
	return must.Get(w.Put(t.Context(), ann, ref, []byte(value), vault.Metadata{}))(t)
}

// placeholders returns all placeholders that a caller's calls may use.
func (w *world) placeholders(t *testing.T, c access.Caller) []vault.Placeholder {
	t.Helper()
	list, more, err := w.Placeholders(t.Context(), vault.Borrower{Caller: c}, 100, func(vault.Placeholder) bool { return true })
	if err != nil || more {
		t.Fatal(more, err)
	}
	return list
}

// reveal returns the newest value.
func (w *world) reveal(t *testing.T, ref vault.Ref) string {
	t.Helper()
	value, _, err := w.Reveal(t.Context(), ann, ref, 0)
	must.Do(t, err)
	return string(value)
}

// codes returns the codes of the events after the first ones.
func (w *world) codes(since int) []event.Code { return w.store.Codes()[since:] }

func p[T any](v T) *T { return &v }
