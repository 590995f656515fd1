package kek_test

import (
	"os"
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// TestRecover loses keys in every way and recovers them; the wrapped keys open again.
func TestRecover(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, c := range map[string]struct {
		lose func(t *testing.T, dir string, m *kektest.Memory)
		// with removes keys from the export.
		with func([]kek.Exported) []kek.Exported
		want reason.Code
	}{
		"nothing is lost": {lose: func(*testing.T, string, *kektest.Memory) {}},
		"the keys": {lose: func(_ *testing.T, _ string, m *kektest.Memory) {
			m.Change(func(keys map[string][]byte) { clear(keys) })
		}},
		"keys and pin": {lose: func(t *testing.T, dir string, m *kektest.Memory) {
			m.Change(func(keys map[string][]byte) { clear(keys) })
			must.Do(t, os.Remove(statedir.VaultPin(dir)))
		}},
		"the keys, with an export of before": {
			lose: func(_ *testing.T, _ string, m *kektest.Memory) {
				m.Change(func(keys map[string][]byte) { clear(keys) })
			},
			with: func(all []kek.Exported) []kek.Exported { return all[:1] },
			want: reason.VaultKeyMissing,
		},
		"the keys, with an empty export": {
			lose: func(_ *testing.T, _ string, m *kektest.Memory) {
				m.Change(func(keys map[string][]byte) { clear(keys) })
			},
			with: func([]kek.Exported) []kek.Exported { return nil },
			want: reason.InvalidInput,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m := t.TempDir(), kektest.NewMemory()
			open := func() *kek.Ring {
				return must.Get(kek.Open(kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}))(t)
			}
			r := open()
			oldID, oldBox, err := r.Wrap(ctx, "old", []byte("old"))
			must.Do(t, err)
			newID := must.Get(r.Rotate(ctx))(t)
			_, newBox, err := r.Wrap(ctx, "new", []byte("new"))
			must.Do(t, err)
			if ids := must.Get(r.IDs(ctx))(t); !slices.Equal(ids, []string{oldID, newID}) {
				t.Errorf("ids %v", ids)
			}
			keys := must.Get(r.Export(ctx))(t)
			c.lose(t, dir, m)
			if c.with != nil {
				keys = c.with(keys)
			}
			err = open().Recover(ctx, keys)
			if reason.Of(err) != c.want {
				t.Fatalf("%v, want %s", err, c.want)
			}
			if c.want != "" {
				return
			}
			again := open()
			if id := must.Get(again.Current(ctx))(t); id != newID {
				t.Errorf("current is %s, was %s", id, newID)
			}
			for about, wrapped := range map[string]struct {
				id  string
				box []byte
			}{"old": {oldID, oldBox}, "new": {newID, newBox}} {
				if key, err := again.Unwrap(ctx, about, wrapped.id, wrapped.box); err != nil || string(key) != about {
					t.Errorf("%s: %q, %v", about, key, err)
				}
			}
		})
	}
}

// A working vault accepts a dropped key again, as an older one.
func TestRecoverDropped(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r, _ := kektest.New(t)
	oldID, box, err := r.Wrap(ctx, "about", []byte("key"))
	must.Do(t, err)
	keys := must.Get(r.Export(ctx))(t)
	newID := must.Get(r.Rotate(ctx))(t)
	must.Do(t, r.Drop(ctx, oldID))
	must.Do(t, r.Recover(ctx, keys))
	if ids := must.Get(r.IDs(ctx))(t); !slices.Equal(ids, []string{oldID, newID}) {
		t.Errorf("ids %v", ids)
	}
	if key, err := r.Unwrap(ctx, "about", oldID, box); err != nil || string(key) != "key" {
		t.Errorf("%q, %v", key, err)
	}
	if err := r.Recover(ctx, []kek.Exported{{ID: newID, Key: keys[0].Key}}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("another key of the same name: %v", err)
	}
}
