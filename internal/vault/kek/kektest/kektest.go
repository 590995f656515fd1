// Package kektest provides key-encryption keys for tests: an in-memory backend that behaves like a
// keyring, and a conformance suite for backends.
package kektest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
)

// Gateway is the gateway of the keys that New creates.
const Gateway = "palyra.test"

// New returns the keys of a new gateway, and their backend.
func New(t testing.TB) (*kek.Ring, *Memory) {
	t.Helper()
	m := NewMemory()
	return must.Get(kek.Open(kek.Options{Dir: t.TempDir(), Gateway: Gateway, Backend: kek.Auto, Backends: []kek.Backend{m}}))(t), m
}

// Memory is an in-memory backend. It can be locked, and lose keys.
type Memory struct {
	mu     sync.Mutex
	keys   map[string][]byte
	locked bool
	asked  int
}

// NewMemory returns an unlocked backend without keys.
func NewMemory() *Memory { return &Memory{keys: make(map[string][]byte)} }

// Lock makes all operations fail until Unlock.
func (m *Memory) Lock() { m.set(true) }

// Unlock reverts Lock.
func (m *Memory) Unlock() { m.set(false) }

func (m *Memory) set(locked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked = locked
}

// Asked returns the number of operations.
func (m *Memory) Asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// IDs returns the ids of its keys.
func (m *Memory) IDs() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.keys {
		ids = append(ids, id)
	}
	return ids
}

// Change modifies the stored keys directly.
func (m *Memory) Change(change func(keys map[string][]byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m.keys)
}

// Name returns "memory".
func (m *Memory) Name() string { return "memory" }

// Get returns a key, or kek.ErrNoKey.
func (m *Memory) Get(_ context.Context, id string) (key []byte, err error) {
	err = m.asking(func() error {
		var ok bool
		if key, ok = m.keys[id]; !ok {
			return fmt.Errorf("looking for %s: %w", id, kek.ErrNoKey)
		}
		key = bytes.Clone(key)
		return nil
	})
	return key, err
}

// Put stores a key.
func (m *Memory) Put(_ context.Context, id string, key []byte) error {
	return m.asking(func() error {
		m.keys[id] = bytes.Clone(key)
		return nil
	})
}

// Delete deletes a key.
func (m *Memory) Delete(_ context.Context, id string) error {
	return m.asking(func() error {
		delete(m.keys, id)
		return nil
	})
}

func (m *Memory) asking(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if m.locked {
		return reason.Errorf(reason.VaultLocked, "the keyring of the test is locked")
	}
	return do()
}

// RunBackend is the conformance suite of backends. open returns the same backend each time, as
// another process would. another returns the backend of another gateway at the same location;
// it is nil if no such backend can exist.
func RunBackend(t *testing.T, open func() kek.Backend, another func() kek.Backend) {
	ctx := t.Context()
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	b := open()
	if _, err := b.Get(ctx, "kek_1"); !errors.Is(err, kek.ErrNoKey) {
		t.Fatalf("an empty backend says %v", err)
	}
	must.Do(t, b.Delete(ctx, "kek_1"))
	must.Do(t, b.Put(ctx, "kek_1", one))
	must.Do(t, b.Put(ctx, "kek_2", one))
	must.Do(t, b.Put(ctx, "kek_2", two))
	for id, want := range map[string][]byte{"kek_1": one, "kek_2": two} {
		for name, b := range map[string]kek.Backend{"the same": b, "another process": open()} {
			if got, err := b.Get(ctx, id); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s is %x, %v", name, id, got, err)
			}
		}
	}
	if another != nil {
		if _, err := another().Get(ctx, "kek_1"); err == nil {
			t.Error("another gateway gets the key")
		}
	}
	// The returned key belongs to the caller.
	clear(must.Get(b.Get(ctx, "kek_1"))(t))
	if got := must.Get(b.Get(ctx, "kek_1"))(t); !bytes.Equal(got, one) {
		t.Error("clearing a key that was handed out clears that of the backend")
	}
	must.Do(t, b.Delete(ctx, "kek_1"))
	must.Do(t, b.Delete(ctx, "kek_1"))
	if _, err := open().Get(ctx, "kek_1"); !errors.Is(err, kek.ErrNoKey) {
		t.Errorf("a deleted key: %v", err)
	}
	if got := must.Get(open().Get(ctx, "kek_2"))(t); !bytes.Equal(got, two) {
		t.Error("deleting one key took another")
	}
	must.Do(t, b.Delete(ctx, "kek_2"))
	if _, err := b.Get(ctx, "kek_2"); !errors.Is(err, kek.ErrNoKey) {
		t.Errorf("the last key is deleted: %v", err)
	}
}
