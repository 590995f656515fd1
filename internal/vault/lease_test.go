package vault_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

func (w *world) lease(t *testing.T, call, run string) *vault.Handle {
	t.Helper()
	return must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: call, Run: run, Until: w.at.Add(time.Hour)}))(t)
}

func TestLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	for name, end := range map[string]func(h *vault.Handle) error{
		"the first": func(h *vault.Handle) error { return h.End(t.Context()) },
		"the next":  func(h *vault.Handle) error { return h.End(t.Context()) },
	} {
		h, other := w.lease(t, "call", "run"), w.lease(t, "call-2", "run-2")
		for range 2 {
			if value := must.Get(h.Value(t.Context(), "api.example.org"))(t); string(value) != "the value" {
				t.Errorf("%s: the value is %q", name, value)
			}
		}
		if list := must.Get(w.Leases.List(bot))(t); len(list) != 2 || list[0].Uses != 2 || list[0].Holder != bot.Principal || list[0].Version != 1 {
			t.Errorf("%s: leases %+v", name, list)
		}
		if list := must.Get(w.Leases.List(caller("eve")))(t); len(list) != 0 {
			t.Errorf("%s: others see %v", name, list)
		}
		must.Do(t, end(h))
		_, err := h.Value(t.Context(), "api.example.org")
		reasontest.Want(t, name, err, reason.NotFound)
		must.Get(other.Value(t.Context(), "h"))(t)
		must.Do(t, other.End(t.Context()))
		must.Do(t, other.End(t.Context()))
		if list := must.Get(w.Leases.List(bot))(t); len(list) != 0 {
			t.Errorf("%s: left are %v", name, list)
		}
	}
	want := []event.Code{event.SecretLeased, event.SecretLeased, event.SecretUsed, event.SecretLeaseEnded, event.SecretUsed, event.SecretLeaseEnded}
	if got := w.codes(1); !slices.Equal(got, slices.Concat(want, want)) {
		t.Errorf("events %v", got)
	}
}

// TestLeaseOfAChangedSecret: a lease keeps its value until the secret is removed.
func TestLeaseOfAChangedSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	h := w.lease(t, "c", "")
	w.put(t, token, "another")
	if value := must.Get(h.Value(t.Context(), "h"))(t); string(value) != "the value" {
		t.Errorf("the value is %q", value)
	}
	must.Do(t, w.Remove(t.Context(), ann, token))
	_, err := h.Value(t.Context(), "h")
	reasontest.Want(t, "a removed secret", err, reason.NotFound)
}

// TestLeaseOfASecretThatExpires: an expiry that a secret gets later also applies to its leases: to
// existing ones and to those created meanwhile.
func TestLeaseOfASecretThatExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	other := vault.Ref{Scope: "global", Key: "other"}
	w.put(t, other, "another value")
	h := w.lease(t, "c", "")
	free := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: other, Call: "c", Until: w.at.Add(time.Hour)}))(t)
	end := vault.Metadata{Expires: p(w.at.Add(time.Minute))}
	must.Get(w.Put(t.Context(), ann, token, nil, end))(t)
	must.Get(h.Value(t.Context(), "h"))(t)
	// The lease is shortened after the secret was read, and before the lease is registered.
	second := vault.Ref{Scope: "global", Key: "second"}
	w.put(t, second, "the value")
	w.store.OnUse = func() {
		w.store.OnUse = nil
		must.Get(w.Put(t.Context(), ann, second, nil, end))(t)
	}
	late := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: second, Call: "c", Until: w.at.Add(time.Hour)}))(t)
	w.at = w.at.Add(time.Minute)
	for name, h := range map[string]*vault.Handle{"one that went on": h, "one that was given meanwhile": late} {
		_, err := h.Value(t.Context(), "h")
		reasontest.Want(t, name, err, reason.NotFound)
	}
	must.Get(free.Value(t.Context(), "h"))(t)
}

func TestLeaseRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	_, err := w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Until: w.at.Add(time.Hour)})
	reasontest.Want(t, "for nothing", err, reason.InvalidInput)
	_, err = w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at})
	reasontest.Want(t, "of no length", err, reason.InvalidInput)
	long := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(1000 * time.Hour)}))(t)
	if until := long.Lease().Until; !until.Equal(w.at.Add(vault.MaxLease)) {
		t.Errorf("it lasts until %s", until)
	}
}

// TestGateway: the gateway itself can lease only the secrets that its configuration names, and
// has no other access. This gives no member the right to lease them.
func TestGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	w.put(t, modelKey, "the key")
	itself := vault.Gateway()
	ask := func(c access.Caller, ref vault.Ref) (*vault.Handle, error) {
		return w.Lease(t.Context(), vault.Borrower{Caller: c}, vault.LeaseRequest{Ref: ref, Run: "run", Until: w.at.Add(time.Hour)})
	}
	before := len(w.store.Events())
	h := must.Get(ask(itself, modelKey))(t)
	if value := must.Get(h.Value(t.Context(), "model m at h"))(t); string(value) != "the key" {
		t.Errorf("the value is %q", value)
	}
	must.Do(t, h.End(t.Context()))
	events := w.store.Events()[before:]
	if got := w.codes(before); !slices.Equal(got, []event.Code{event.SecretLeased, event.SecretUsed, event.SecretLeaseEnded}) {
		t.Errorf("events %v", got)
	}
	for _, e := range events {
		if e.Actor != "service:palyrad" || !strings.Contains(string(e.Payload), `"run_id":"run"`) {
			t.Errorf("event %s by %s: %s", e.Code, e.Actor, e.Payload)
		}
	}
	_, err := ask(itself, token)
	reasontest.Want(t, "another secret", err, reason.PermissionDenied)
	_, err = ask(bob, modelKey)
	reasontest.Want(t, "somebody else", err, reason.PermissionDenied)
	_, _, err = w.Reveal(t.Context(), itself, modelKey, 0)
	reasontest.Want(t, "revealing", err, reason.PermissionDenied)
	_, err = w.Put(t.Context(), itself, modelKey, []byte("x"), vault.Metadata{})
	reasontest.Want(t, "putting", err, reason.PermissionDenied)
	reasontest.Want(t, "removing", w.Remove(t.Context(), itself, modelKey), reason.PermissionDenied)
	_, err = w.List(t.Context(), itself, vault.Page{Limit: 9})
	reasontest.Want(t, "listing", err, reason.PermissionDenied)
	if got, _, err := w.Placeholders(t.Context(), vault.Borrower{Caller: ann}, 9, func(vault.Placeholder) bool { return true }); err != nil || len(got) != 0 {
		t.Errorf("without hosts it is offered: %v, %v", got, err)
	}
	w.store.Fail(errors.New("the disk is full"))
	if h, err := ask(itself, modelKey); err == nil {
		t.Errorf("a key without its event: %v", h.Lease())
	}
}

// TestLeasesExpire: Run ends expired leases.
func TestLeasesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := vaulttest.NewStore(t)
		s := must.Get(vault.New(vault.Config{
			Store: store, Keys: vault.NewWrapper(vaulttest.NewKeys(), store),
			Judge: vaulttest.Judge{ann.Principal: {access.PermVaultPut, access.PermSecretLease}},
		}))(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Leases.Run(ctx, func(err error) { t.Error(err) }) }()
		must.Get(s.Put(ctx, ann, token, []byte("v"), vault.Metadata{}))(t)
		lease := func(d time.Duration) {
			must.Get(s.Lease(ctx, vault.Borrower{Caller: ann}, vault.LeaseRequest{Ref: token, Run: "r", Until: time.Now().Add(d)}))(t)
		}
		lease(time.Hour)
		lease(time.Minute)
		count := func() int { return len(must.Get(s.Leases.List(ann))(t)) }
		if n := count(); n != 2 {
			t.Errorf("%d leases of 2", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if events := store.Events(); count() != 1 || events[len(events)-1].Code != event.SecretLeaseEnded {
			t.Errorf("%d leases after a minute; %v", count(), events[len(events)-1])
		}
		stop()
		must.Do(t, <-done)
		if events := store.Events(); count() != 0 || len(events) != 5 {
			t.Errorf("%d leases after the end, %d events", count(), len(events))
		}
	})
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	set := vault.Metadata{Hosts: p([]string{"*.example.org:443"}), Header: p("X-Api-Key"), Env: p("API_KEY")}
	must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "user:ann", Key: "api"}, []byte("long-enough"), set))(t)
	must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "api"}, []byte("long-enough"), set))(t)
	got := w.placeholders(t, bot)
	if len(got) != 1 || got[0].Version != 1 || got[0].Ref.String() != "vault://global/api" || got[0].Header != "X-Api-Key" || got[0].Env != "API_KEY" ||
		!slices.Equal(got[0].Hosts, []string{"*.example.org:443"}) {
		t.Errorf("placeholders %+v", got)
	}
	if got := w.placeholders(t, ann); len(got) != 2 {
		t.Errorf("the user's own %+v", got)
	}
	if got := w.placeholders(t, bob); len(got) != 0 {
		t.Errorf("without secret.lease %+v", got)
	}
	if n := len(w.codes(3)); n != 0 {
		t.Errorf("%d events for no value", n)
	}
}
