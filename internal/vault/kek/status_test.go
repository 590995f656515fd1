package kek_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
	"palyra/internal/vault/kek/kektest"
)

// book is a journal in memory that can refuse events.
type book struct {
	ids  []string
	full bool
}

func (b *book) Known(context.Context) (bool, error) { return len(b.ids) > 0, nil }

func (b *book) Pinned(_ context.Context, backend, id string) error {
	if b.full {
		return reason.Errorf(reason.JournalUnavailable, "the disk is full")
	}
	b.ids = append(b.ids, backend+" "+id)
	return nil
}

// A key is journaled before it wraps anything. If the journal has a key and the pin is missing,
// no new key is created. Control: a journal without a key.
func TestJournalRemembers(t *testing.T) {
	t.Parallel()
	dir, m, b := t.TempDir(), kektest.NewMemory(), &book{full: true}
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}, Journal: b}
	_, _, err := must.Get(kek.Open(o))(t).Wrap(t.Context(), "x", []byte("k"))
	is(t, "while it cannot be journaled", err, reason.JournalUnavailable)
	b.full = false
	r := must.Get(kek.Open(o))(t)
	first, back := wrapped(t, r, "one")
	must.Do(t, back(must.Get(kek.Open(o))(t)))
	second := must.Get(r.Rotate(t.Context()))(t)
	if len(b.ids) != 2 || b.ids[0] != "memory "+first || b.ids[1] != "memory "+second {
		t.Errorf("the journal has %q", b.ids)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "vault.json")))
	r = must.Get(kek.Open(o))(t)
	is(t, "the pin is gone", back(r), reason.VaultKeyMissing, "vault.json is missing")
	if len(m.IDs()) != 2 {
		t.Errorf("the backend has %q", m.IDs())
	}
	o.Journal = &book{}
	is(t, "the control: nobody knows of it", back(must.Get(kek.Open(o))(t)), reason.VaultKeyMissing, "no key "+first)
}

// Examine changes nothing, and returns the status that a start would find.
func TestExamine(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), kektest.NewMemory()
	o := kek.Options{Dir: dir, Gateway: kektest.Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}
	if s := kek.Examine(t.Context(), o); s.Locked || s.Backend != "" || s.String() != "no key yet" {
		t.Errorf("%+v", s)
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) != 0 || m.Asked() != 0 {
		t.Error("looking made something")
	}
	id := must.Get(must.Get(kek.Open(o))(t).Current(t.Context()))(t)
	before := all(t, dir)
	if s := kek.Examine(t.Context(), o); s.Locked || s.Backend != "memory" || s.ID != id {
		t.Errorf("%+v", s)
	}
	m.Lock()
	if s := kek.Examine(t.Context(), o); !s.Locked || s.Reason != reason.VaultLocked {
		t.Errorf("%+v", s)
	}
	m.Unlock()
	m.Change(func(keys map[string][]byte) { clear(keys) })
	if s := kek.Examine(t.Context(), o); !s.Locked || s.Reason != reason.VaultKeyMissing {
		t.Errorf("%+v", s)
	}
	o.Backend = kek.InFile
	if s := kek.Examine(t.Context(), o); !s.Locked || s.Reason != reason.ConfigInvalid {
		t.Errorf("%+v", s)
	}
	if all(t, dir) != before {
		t.Error("looking changed something")
	}
	if _, err := os.Stat(filepath.Join(dir, "vault.kek")); !errors.Is(err, os.ErrNotExist) {
		t.Error("looking made a key")
	}
}
