package vault_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

// counted are keys that count unwrap operations.
type counted struct {
	*vaulttest.Keys

	n atomic.Int64
}

func (c *counted) Unwrap(ctx context.Context, about, id string, box []byte) ([]byte, error) {
	c.n.Add(1)
	return c.Keys.Unwrap(ctx, about, id, box)
}

// TestPlaceholdersAreOpenedOnce: a call does not cost more if there are many secrets, and only a
// changed secret is opened again.
func TestPlaceholdersAreOpenedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := &counted{Keys: w.keys}
	w.Service = must.Get(vault.New(vault.Config{Store: w.store, Keys: vault.NewWrapper(keys, w.store), Judge: w.judge}))(t)
	placed := vault.Metadata{Hosts: p([]string{"h.example.org:443"})}
	for n := range 50 {
		must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: fmt.Sprintf("k%02d", n)}, []byte("long-enough"), placed))(t)
	}
	for _, want := range []int64{50, 0, 0} {
		keys.n.Store(0)
		if list := w.placeholders(t, bot); len(list) != 50 || keys.n.Load() != want {
			t.Errorf("%d secrets, %d opened, want %d", len(list), keys.n.Load(), want)
		}
	}
	must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "k07"}, nil, vault.Metadata{Env: p("TOKEN")}))(t)
	keys.n.Store(0)
	if list := w.placeholders(t, bot); len(list) != 50 || list[7].Env != "TOKEN" || keys.n.Load() != 1 {
		t.Errorf("%d secrets, %+v, %d opened, want 1", len(list), list[7], keys.n.Load())
	}
}

// TestPlaceholdersFollowChanges: placeholders follow changes of the secrets and of their
// readability.
func TestPlaceholdersFollowChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wants := func(after string, want ...string) {
		t.Helper()
		var got []string
		for _, one := range w.placeholders(t, ann) {
			got = append(got, fmt.Sprintf("%s@%d %s", one.Ref.Name(), one.Version, one.Note))
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", after, got, want)
		}
	}
	wants("nothing")
	hosts := p([]string{"h.example.org:443"})
	own := vault.Ref{Scope: "user:ann", Key: "z"}
	put := func(ref vault.Ref, value []byte, set vault.Metadata) {
		must.Get(w.Put(t.Context(), ann, ref, value, set))(t)
	}
	put(token, []byte("long-enough"), vault.Metadata{})
	wants("one without hosts")
	put(token, nil, vault.Metadata{Hosts: hosts, Note: p("a")})
	wants("hosts", "global/token@1 a")
	put(own, []byte("long-enough"), vault.Metadata{Hosts: hosts, Note: p("mine")})
	wants("a narrower one", "user:ann/z@1 mine", "global/token@1 a")
	put(token, []byte("another-one"), vault.Metadata{})
	wants("another value", "user:ann/z@1 mine", "global/token@2 a")
	must.Get(w.Keys.Rekey(t.Context(), ann))(t)
	wants("a rekey", "user:ann/z@1 mine", "global/token@2 a")
	w.keys.Lock()
	if _, _, err := w.Placeholders(t.Context(), vault.Borrower{Caller: ann}, 9, func(vault.Placeholder) bool { return true }); reason.Of(err) != reason.VaultLocked {
		t.Errorf("a locked vault: %v", err)
	}
	must.Do(t, w.keys.Unlock(t.Context(), []byte("open sesame")))
	put(token, nil, vault.Metadata{Hosts: p([]string{})})
	wants("no hosts any more", "user:ann/z@1 mine")
	must.Do(t, w.Remove(t.Context(), ann, own))
	wants("a removal")
	// A secret that is damaged when it is read is omitted, and returns after a repair.
	put(token, nil, vault.Metadata{Hosts: hosts, Note: p("b")})
	w.store.Edit(token, func(r *vault.Record) { r.Seal[0] ^= 1 })
	wants("damage")
	if _, more, err := w.Placeholders(t.Context(), vault.Borrower{Caller: ann}, 0, func(vault.Placeholder) bool { return true }); more || err != nil {
		t.Errorf("more %v, %v", more, err)
	}
}

// TestPlaceholdersAreBounded: Placeholders returns at most the requested number, and reports
// the omission.
func TestPlaceholdersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 5 {
		must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: fmt.Sprint("k", n)}, []byte("long-enough"), vault.Metadata{Hosts: p([]string{"h.example.org:443"})}))(t)
	}
	asked := 0
	wanted := func(one vault.Placeholder) bool { asked++; return one.Ref.Key != "k0" }
	for limit, want := range map[int]int{2: 2, 4: 4, 9: 4} {
		list, more, err := w.Placeholders(t.Context(), vault.Borrower{Caller: bot}, limit, wanted)
		if err != nil || len(list) != want || more != (limit < 4) || list[0].Ref.Key != "k1" {
			t.Errorf("at most %d: %d, more %v, %v", limit, len(list), more, err)
		}
	}
}

// TestPlaceholdersWhilePutting: a secret that was stored before a request is in its result.
func TestPlaceholdersWhilePutting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var group sync.WaitGroup
	for part := range 4 {
		group.Go(func() {
			for n := range 50 {
				ref := vault.Ref{Scope: "global", Key: fmt.Sprintf("k%d-%02d", part, n)}
				if _, err := w.Put(t.Context(), ann, ref, []byte("long-enough"), vault.Metadata{Hosts: p([]string{"h.example.org:443"})}); err != nil {
					t.Error(err)
				}
				list, _, err := w.Placeholders(t.Context(), vault.Borrower{Caller: bot}, 1, func(one vault.Placeholder) bool { return one.Ref == ref })
				if err != nil || len(list) != 1 {
					t.Errorf("%s: %v, %v", ref, list, err)
				}
			}
		})
	}
	group.Wait()
	if list, _, err := w.Placeholders(t.Context(), vault.Borrower{Caller: bot}, 500, func(vault.Placeholder) bool { return true }); err != nil || len(list) != 200 {
		t.Errorf("%d, %v", len(list), err)
	}
}
