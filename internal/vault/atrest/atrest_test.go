package atrest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault/atrest"
	"palyra/internal/vault/atrest/atresttest"
)

// shelf is a store in memory.
type shelf struct {
	mu   sync.Mutex
	keys []atrest.Wrapped
}

func (s *shelf) ResultsKey(_ context.Context, id string) (atrest.Wrapped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range slices.Backward(s.keys) {
		if id == "" || w.ID == id {
			w.Box = bytes.Clone(w.Box)
			return w, nil
		}
	}
	return atrest.Wrapped{}, nil
}

func (s *shelf) AddResultsKey(_ context.Context, w atrest.Wrapped) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, w)
	return nil
}

func placeOf(table, row string, plain []byte) atrest.Place {
	return atrest.Place{Table: table, Row: row, Digest: sha256.Sum256(plain)}
}

func TestSealedDataIsBoundToItsLocation(t *testing.T) {
	t.Parallel()
	var ring atresttest.Ring
	store := &shelf{}
	keys := atrest.New(&ring, store, time.Now)
	must.Do(t, keys.Ready(t.Context()))
	plain := []byte("what the tool returned")
	at := placeOf("results", "1", plain)
	key, box, err := keys.Seal(at, plain)
	if err != nil || bytes.Contains(box, plain) || len(box) != len(plain)+atrest.Overhead {
		t.Fatalf("%d bytes, %v", len(box), err)
	}
	if _, again, _ := keys.Seal(at, plain); bytes.Equal(box, again) {
		t.Error("the same value was sealed twice to the same box")
	}
	other := placeOf("results", "1", []byte("other"))
	flipped := bytes.Clone(box)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		at  atrest.Place
		box []byte
	}{
		"another table":  {placeOf("approvals", "1", plain), box},
		"another row":    {placeOf("results", "2", plain), box},
		"shifted":        {placeOf("result", "s1", plain), box},
		"another digest": {other, box},
		"a flipped bit":  {at, flipped},
		"cut short":      {at, box[:atrest.Overhead-1]},
		"nothing":        {at, nil},
	} {
		_, err := keys.Open(t.Context(), c.at, key, bytes.Clone(c.box))
		reasontest.Want(t, name, err, reason.VerificationFailed)
	}
	_, err = keys.Open(t.Context(), at, "01JZZZZZZZZZZZZZZZZZZZZZZZ", bytes.Clone(box))
	reasontest.Want(t, "no such key", err, reason.VerificationFailed)

	// After a restart, the same key opens the box, and seals.
	again := atrest.New(&ring, store, time.Now)
	if got := must.Get(again.Open(t.Context(), at, key, bytes.Clone(box)))(t); !bytes.Equal(got, plain) {
		t.Errorf("got %q", got)
	}
	must.Do(t, again.Ready(t.Context()))
	if key2, _, err := again.Seal(at, plain); err != nil || key2 != key || len(store.keys) != 1 {
		t.Errorf("key %s, want %s; %d keys, %v", key2, key, len(store.keys), err)
	}

	// A key that replaces another does not open.
	store.keys[0].ID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"
	reasontest.Want(t, "a swapped key", atrest.New(&ring, store, time.Now).Ready(t.Context()), reason.SecretUnreadable)

	keys.Close()
	if _, _, err := keys.Seal(at, plain); err == nil {
		t.Error("sealed after the end")
	}
	if _, err := keys.OpenKnown(at, key, box); err == nil {
		t.Error("opened after the end")
	}
}

// A locked vault is queried at most once a second, and is used again once it is unlocked.
func TestLockedThenUnlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ring atresttest.Ring
		ring.Locked.Store(true)
		store := &shelf{}
		keys := atrest.New(&ring, store, time.Now)
		for range 100 {
			reasontest.Want(t, "locked", keys.Ready(t.Context()), reason.VaultLocked)
		}
		if n := ring.Used.Load(); n != 1 || len(store.keys) != 0 {
			t.Errorf("the vault was asked %d times, %d keys were stored", n, len(store.keys))
		}
		reasontest.Want(t, "why", keys.Problem(), reason.VaultLocked)
		_, _, err := keys.Seal(placeOf("results", "", nil), nil)
		reasontest.Want(t, "sealing", err, reason.VaultLocked)
		select {
		case <-keys.Opened():
			t.Error("a locked vault counts as open")
		default:
		}
		ring.Locked.Store(false)
		time.Sleep(time.Second)
		must.Do(t, keys.Ready(t.Context()))
		<-keys.Opened()
		if err := keys.Problem(); err != nil {
			t.Errorf("problem %v", err)
		}
	})
}

// TestCancelledCallerDoesNotLockTheVault: a caller that cancels does not make the vault appear
// locked to others.
func TestCancelledCallerDoesNotLockTheVault(t *testing.T) {
	t.Parallel()
	var ring leftRing
	keys := atrest.New(&ring, &shelf{}, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := keys.Ready(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	must.Do(t, keys.Ready(t.Context()))
}

type leftRing struct{ atresttest.Ring }

func (r *leftRing) Wrap(ctx context.Context, about string, key []byte, keep func(by string, box []byte) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.Ring.Wrap(ctx, about, key, keep)
}

func TestWithoutAVault(t *testing.T) {
	t.Parallel()
	reasontest.Want(t, "no vault", atrest.New(nil, &shelf{}, time.Now).Ready(t.Context()), reason.VaultLocked)
}
