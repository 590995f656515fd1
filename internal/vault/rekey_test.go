package vault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

// many stores n secrets with two versions each.
func (w *world) many(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		ref := vault.Ref{Scope: "global", Key: fmt.Sprintf("k%04d", i)}
		w.put(t, ref, "old-"+ref.Key)
		w.put(t, ref, "new-"+ref.Key)
	}
}

// whole checks that every value of many is readable, under one key.
func (w *world) whole(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		ref := vault.Ref{Scope: "global", Key: fmt.Sprintf("k%04d", i)}
		for version, want := range []string{"old-" + ref.Key, "new-" + ref.Key} {
			value, _, err := w.Reveal(t.Context(), ann, ref, version+1)
			if err != nil || string(value) != want {
				t.Fatalf("version %d of %s: %q, %v", version+1, ref, value, err)
			}
		}
	}
	current := must.Get(w.keys.Current(t.Context()))(t)
	if ids := must.Get(w.keys.IDs(t.Context()))(t); !slices.Equal(ids, []string{current}) {
		t.Errorf("keys %v, current is %s", ids, current)
	}
	if stale := must.Get(w.store.StaleBoxes(t.Context(), current, vault.Box{}, 9))(t); len(stale) > 0 {
		t.Errorf("%d stale boxes", len(stale))
	}
}

func TestRekey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(t, 300)
	first := must.Get(w.keys.Current(t.Context()))(t)
	done := must.Get(w.Keys.Rekey(t.Context(), ann))(t)
	if done.Rewrapped != 600 || !slices.Equal(done.Dropped, []string{first}) || done.Key == first || len(done.Unreadable) > 0 {
		t.Errorf("done %+v", done)
	}
	if got := w.codes(600); !slices.Equal(got, []event.Code{event.VaultRekeyed, event.VaultRekeyed}) {
		t.Errorf("events %v", got)
	}
	w.whole(t, 300)
	_, err := w.Keys.Rekey(t.Context(), bob)
	reasontest.Want(t, "without the permission", err, reason.PermissionDenied)
	if done := must.Get(w.Keys.Resume(t.Context()))(t); done.Rewrapped != 0 || len(done.Dropped) > 0 {
		t.Errorf("nothing was left to do: %+v", done)
	}
}

// A stop after any step loses nothing, and the next start completes the rekey.
func TestRekeyStopped(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for stop := 1; ; stop++ {
		w := newWorld(t)
		w.many(t, 200)
		step, reached := 0, ""
		vault.OnStep(w.wrapper, func(name string) error {
			if step++; step == stop {
				reached = name
				return killed
			}
			return nil
		})
		_, err := w.Keys.Rekey(t.Context(), ann)
		if err == nil {
			if stop != 7 {
				t.Errorf("a rekey of 400 keys has %d steps", stop-1)
			}
			return
		}
		if !errors.Is(err, killed) {
			t.Fatalf("stop at %s: %v", reached, err)
		}
		// After a restart, everything is readable before the rekey resumes, and afterwards.
		vault.OnStep(w.wrapper, func(string) error { return nil })
		if got := w.reveal(t, vault.Ref{Scope: "global", Key: "k0007"}); got != "new-k0007" {
			t.Errorf("after a stop at %s: %q", reached, got)
		}
		must.Get(w.Keys.Resume(t.Context()))(t)
		w.whole(t, 200)
		if t.Failed() {
			t.Fatalf("after a stop at %s", reached)
		}
	}
}

// A put that is stopped leaves the secret as it was.
func TestPutStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "first")
	killed := errors.New("killed")
	vault.OnStep(w.wrapper, func(string) error { return killed })
	if _, err := w.Put(t.Context(), ann, token, []byte("second"), vault.Metadata{}); !errors.Is(err, killed) {
		t.Errorf("put: %v", err)
	}
	vault.OnStep(w.wrapper, func(string) error { return nil })
	if got := w.reveal(t, token); got != "first" {
		t.Errorf("the value is %q", got)
	}
	if m := w.put(t, token, "second"); m.Version != 2 {
		t.Errorf("version %d", m.Version)
	}
}

// A put stores its wrapped key before the wrapping key can be dropped.
func TestRekeyWaitsForPuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	between := 0
	vault.OnStep(w.wrapper, func(step string) error {
		if step == "wrapped" && vault.MayRotate(w.wrapper) {
			between++
			must.Get(w.Keys.Rekey(t.Context(), ann))(t)
		}
		return nil
	})
	w.put(t, token, "value")
	must.Get(w.Keys.Rekey(t.Context(), ann))(t)
	if got := w.reveal(t, token); got != "value" || between > 0 {
		t.Errorf("the value is %q; %d rekeys before it was kept", got, between)
	}
}

// TestRekeyWithDamagedSecrets: an unreadable secret does not block the rekey of the others, and
// the old key is kept.
func TestRekeyWithDamagedSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(t, 3)
	broken := vault.Ref{Scope: "global", Key: "k0001"}
	w.store.Edit(broken, func(r *vault.Record) { r.Versions[0].Key[30] ^= 1 })
	done := must.Get(w.Keys.Rekey(t.Context(), ann))(t)
	if done.Rewrapped != 5 || len(done.Unreadable) != 1 || done.Unreadable[0] != vault.About(broken, 1) || len(done.Dropped) > 0 {
		t.Errorf("done %+v", done)
	}
	if ids := must.Get(w.keys.IDs(t.Context()))(t); len(ids) != 2 {
		t.Errorf("keys %v", ids)
	}
	must.Do(t, w.Remove(t.Context(), ann, broken))
	if done := must.Get(w.Keys.Resume(t.Context()))(t); len(done.Dropped) != 1 {
		t.Errorf("after the removal %+v", done)
	}
}

func TestRekeyWithoutTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "value")
	first := must.Get(w.keys.Current(t.Context()))(t)
	full := errors.New("disk full")
	w.store.Fail(full)
	if _, err := w.Keys.Rekey(t.Context(), ann); !errors.Is(err, full) {
		t.Errorf("rekey: %v", err)
	}
	if now := must.Get(w.keys.Current(t.Context()))(t); now != first {
		t.Errorf("the key is %s, was %s", now, first)
	}
}

// TestRekeyDuringOtherOperations: puts and reads continue during a rekey, and none is lost.
func TestRekeyDuringOtherOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.many(t, 100)
	var group sync.WaitGroup
	var stop atomic.Bool
	for i := range 3 {
		group.Go(func() {
			for n := 0; !stop.Load(); n++ {
				ref := vault.Ref{Scope: "global", Key: fmt.Sprintf("new-%d", i)}
				want := fmt.Sprintf("value-%d", n)
				if _, err := w.Put(t.Context(), ann, ref, []byte(want), vault.Metadata{}); err != nil {
					t.Errorf("put: %v", err)
				}
				if value, _, err := w.Reveal(t.Context(), ann, ref, 0); err != nil || string(value) != want {
					t.Errorf("reveal: %q, want %q, %v", value, want, err)
				}
				read := vault.Ref{Scope: "global", Key: fmt.Sprintf("k%04d", n%100)}
				if value, _, err := w.Reveal(t.Context(), ann, read, 1); err != nil || !strings.HasPrefix(string(value), "old-") {
					t.Errorf("reveal %s: %q, %v", read, value, err)
				}
				if _, err := w.List(t.Context(), ann, vault.Page{Limit: 20}); err != nil {
					t.Errorf("list: %v", err)
				}
			}
		})
	}
	for range 5 {
		must.Get(w.Keys.Rekey(t.Context(), ann))(t)
	}
	stop.Store(true)
	group.Wait()
	w.whole(t, 100)
	for _, m := range must.Get(w.List(t.Context(), ann, vault.Page{Limit: 200}))(t) {
		if m.Unreadable != nil {
			t.Error(m.Unreadable)
		}
	}
}

// meanwhile is a store that runs a function after a record was read.
type meanwhile struct {
	*vaulttest.Store

	happens func()
}

func (s *meanwhile) Record(ctx context.Context, ref vault.Ref) (vault.Record, error) {
	r, err := s.Store.Record(ctx, ref)
	if do := s.happens; do != nil {
		s.happens = nil
		do()
	}
	return r, err
}

// TestRekeyBetweenReads: a key that is replaced and dropped between two reads of a secret is not
// damage.
func TestRekeyBetweenReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "value")
	between := &meanwhile{Store: w.store}
	s := must.Get(vault.New(vault.Config{Store: between, Keys: w.wrapper, Judge: w.judge, Now: func() time.Time { return w.at }}))(t)
	rekey := func() { must.Get(w.Keys.Rekey(t.Context(), ann))(t) }
	for name, do := range map[string]func() error{
		"get":    func() error { _, err := s.Get(t.Context(), ann, token); return err },
		"reveal": func() error { _, _, err := s.Reveal(t.Context(), ann, token, 0); return err },
		"edit":   func() error { _, err := s.Put(t.Context(), ann, token, nil, vault.Metadata{Note: p("x")}); return err },
		"put":    func() error { _, err := s.Put(t.Context(), ann, token, []byte("v"), vault.Metadata{}); return err },
	} {
		between.happens = rekey
		if err := do(); err != nil || between.happens != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
