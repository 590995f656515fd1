package lend

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

var (
	ann = access.Caller{Principal: access.User("ann"), OnBehalfOf: access.User("ann")}
	bob = access.Caller{Principal: access.User("bob"), OnBehalfOf: access.User("bob")}
)

// testVault is a vault with a desk.
type testVault struct {
	*Desk

	vault *vault.Service
	store *vaulttest.Store
	keys  *vaulttest.Keys
}

func newVault(t *testing.T) testVault {
	t.Helper()
	store, keys := vaulttest.NewStore(t), vaulttest.NewKeys()
	judge := vaulttest.Judge{ann.Principal: {access.PermVaultPut, access.PermVaultDelete, access.PermSecretLease}, bob.Principal: {access.PermVaultPut}}
	v := must.Get(vault.New(vault.Config{Store: store, Keys: vault.NewWrapper(keys, store), Judge: judge, Holders: func(vault.Kind, string) string { return "SHA256:key" }, Own: []vault.Ref{{Scope: "global", Key: "model"}}}))(t)
	d := New(time.Minute, slog.New(slog.DiscardHandler))
	d.Serve(v)
	return testVault{d, v, store, keys}
}

func (w testVault) put(t *testing.T, c access.Caller, scope, key, env string) {
	t.Helper()
	hosts, header := []string{"api.example.org:443"}, "X-Api-Key"
	must.Get(w.vault.Put(t.Context(), c, vault.Ref{Scope: scope, Key: key}, []byte("value of "+key), vault.Metadata{Hosts: &hosts, Header: &header, Env: &env}))(t)
}

func all(egress.Secret) bool { return true }

// offers returns all offers for a caller.
func (w testVault) offers(t *testing.T, c access.Caller) []egress.Secret {
	t.Helper()
	list, more, err := w.Offers(t.Context(), tool.Proposal{Caller: c}, 100, all)
	if err != nil || more {
		t.Fatal(more, err)
	}
	return list
}

// TestSecretsOfSkills: secrets in the scope of a skill are lent only to calls of its guests.
func TestSecretsOfSkills(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	w.put(t, ann, "skill:web", "key", "")
	for skill, want := range map[string]int{"": 0, "notes": 0, "web": 1} {
		p := tool.Proposal{ID: "01CALL", Caller: ann, Tool: tool.Descriptor{Skill: skill}}
		list, _, err := w.Offers(t.Context(), p, 10, all)
		if err != nil || len(list) != want {
			t.Errorf("a guest of %q is offered %v: %v", skill, list, err)
		}
		lent, end := w.Lend(tool.Call{Proposal: p}, []egress.Secret{{Name: "skill:web/key", Version: 1, Header: "X-Api-Key"}})
		value, err := lent[0].Source.Secret(t.Context(), "skill:web/key")
		if (err == nil) != (want == 1) || want == 1 && string(value) != "value of key" {
			t.Errorf("a guest of %q leases %q: %v", skill, value, err)
		}
		end()
	}
}

func (w testVault) codes() (codes []event.Code) {
	for _, e := range w.store.Events() {
		codes = append(codes, e.Code)
	}
	return codes
}

func call(c access.Caller) tool.Call {
	return tool.Call{Proposal: tool.Proposal{ID: "01CALL", Caller: c}}
}

// TestOffers: offers contain the secrets that policy permits a caller to lease, the narrower
// scope first. Planning leases no secrets.
func TestOffers(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	w.put(t, ann, "global", "github", "TOKEN")
	w.put(t, ann, "user:ann", "github", "TOKEN")
	w.put(t, bob, "user:bob", "github", "TOKEN")
	before := len(w.codes())
	offers := w.offers(t, ann)
	var names []string
	for _, o := range offers {
		names = append(names, fmt.Sprint(o.Bound(), " ", o.Env, " ", o.Header, " ", o.Reach(), o.Source == nil))
	}
	want := []string{"secret:user:ann/github@1 TOKEN X-Api-Key [api.example.org:443] true", "secret:global/github@1 TOKEN X-Api-Key [api.example.org:443] true"}
	if !slices.Equal(names, want) {
		t.Errorf("offered\n%q\nwant\n%q", names, want)
	}
	if offers := w.offers(t, bob); len(offers) != 0 {
		t.Errorf("without the permission %+v", offers)
	}
	if after := w.codes(); len(after) != before {
		t.Errorf("events %v", after[before:])
	}
	w.keys.Lock()
	if _, _, err := w.Offers(t.Context(), tool.Proposal{Caller: ann}, 1, all); reason.Of(err) != reason.VaultLocked {
		t.Errorf("a locked vault: %v", err)
	}
}

// TestGatewaySecret: a secret for the gateway itself is leased for a run.
func TestGatewaySecret(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	must.Get(w.vault.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "model"}, []byte("the key"), vault.Metadata{}))(t)
	w.put(t, ann, "global", "github", "")
	before := len(w.codes())
	value, end, err := w.Own(t.Context(), "vault://global/model", "01RUN", "model m at h")
	if err != nil || string(value) != "the key" {
		t.Fatalf("%q, %v", value, err)
	}
	end()
	events := w.store.Events()[before:]
	if got := w.codes()[before:]; !slices.Equal(got, []event.Code{event.SecretLeased, event.SecretUsed, event.SecretLeaseEnded}) {
		t.Fatalf("events %v", got)
	}
	for want, at := range map[string]int{`"run_id":"01RUN"`: 0, `"for":"model m at h"`: 1, `"why":"returned"`: 2} {
		if e := events[at]; e.Actor != "service:palyrad" || !strings.Contains(string(e.Payload), want) {
			t.Errorf("%s by %s: %s", e.Code, e.Actor, e.Payload)
		}
	}
	if _, _, err := w.Own(t.Context(), "vault://global/github", "01RUN", "x"); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("a secret of others: %v", err)
	}
	w.keys.Lock()
	if _, _, err := w.Own(t.Context(), "vault://global/model", "01RUN", "x"); reason.Of(err) != reason.VaultLocked {
		t.Errorf("a locked vault: %v", err)
	}
}

// TestLend: a value is leased at its first use, and never after the call.
func TestLend(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	w.put(t, ann, "global", "github", "")
	w.put(t, ann, "global", "maps", "")
	before := len(w.codes())
	offers := w.offers(t, ann)
	lent, end := w.Lend(call(ann), offers)
	if len(w.codes()) != before {
		t.Error("lending leases what nobody uses")
	}
	if value := must.Get(lent[0].Source.Secret(t.Context(), "global/github"))(t); string(value) != "value of github" {
		t.Errorf("value %q", value)
	}
	if _, err := lent[0].Source.Secret(t.Context(), "global/other"); reason.Of(err) != reason.NotFound {
		t.Errorf("what was not lent: %v", err)
	}
	must.Get(lent[0].Source.Secret(t.Context(), "global/github"))(t)
	end()
	end()
	if got, want := w.codes()[before:], []event.Code{event.SecretLeased, event.SecretUsed, event.SecretLeaseEnded}; !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
	if _, err := lent[1].Source.Secret(t.Context(), "global/maps"); reason.Of(err) != reason.NotFound {
		t.Errorf("after the call: %v", err)
	}
	if list := must.Get(w.vault.Leases.List(ann))(t); len(list) != 0 {
		t.Errorf("leases %+v", list)
	}
}

// TestRemovedSecret: a removed secret is no longer lent, even to a call that has already used
// it.
func TestRemovedSecret(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	w.put(t, ann, "global", "github", "")
	lent, end := w.Lend(call(ann), w.offers(t, ann))
	defer end()
	must.Get(lent[0].Source.Secret(t.Context(), "global/github"))(t)
	must.Do(t, w.vault.Remove(t.Context(), ann, vault.Ref{Scope: "global", Key: "github"}))
	if value, err := lent[0].Source.Secret(t.Context(), "global/github"); reason.Of(err) != reason.NotFound {
		t.Errorf("value %q, %v", value, err)
	}
}

// TestInject: values are leased for the call and the run, with a purpose, and cleared when the
// call ends. Secrets with hosts and short values are refused.
func TestInject(t *testing.T) {
	t.Parallel()
	w := newVault(t)
	w.put(t, ann, "global", "placed", "PLACED")
	store := func(key, value, env, file string) {
		must.Get(w.vault.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: key}, []byte(value), vault.Metadata{Env: &env, File: &file}))(t)
	}
	store("aws", "value of aws", "AWS_KEY", "")
	store("file", "value of file", "KEY_FILE", "key.txt")
	store("short", "short", "SHORT", "")
	store("nowhere", "value of nowhere", "", "")
	of := tool.Proposal{ID: "01CALL", Run: "01RUN", Caller: ann}
	for name, want := range map[string]reason.Code{
		"global/placed": reason.InvalidInput, "global/nowhere": reason.InvalidInput, "global/none": reason.NotFound, "x": reason.InvalidInput,
	} {
		if _, err := w.Injectable(t.Context(), of, name); reason.Of(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Injectable(t.Context(), tool.Proposal{Caller: bob}, "global/aws"); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("without the permission: %v", err)
	}
	all := must.Get(w.Injectables(t.Context(), of))(t)
	if len(all) != 3 || all[0].Secret != "global/aws" || all[1].File != "key.txt" || all[1].Env != "KEY_FILE" {
		t.Errorf("injectable are %+v", all)
	}
	if others := must.Get(w.Injectables(t.Context(), tool.Proposal{Caller: bob}))(t); len(others) != 0 {
		t.Errorf("without the permission %+v", others)
	}
	before := len(w.codes())
	c := tool.Call{Proposal: of}
	values, end, err := w.Inject(t.Context(), c, all[:2], "/usr/bin/aws")
	if err != nil || string(values[0]) != "value of aws" || string(values[1]) != "value of file" {
		t.Fatalf("%q, %v", values, err)
	}
	leases := must.Get(w.vault.Leases.List(ann))(t)
	if len(leases) != 2 || leases[0].Call != "01CALL" || leases[0].Run != "01RUN" {
		t.Errorf("leases %+v", leases)
	}
	told := string(w.store.Events()[before+1].Payload)
	if !strings.Contains(told, `"for":"variable AWS_KEY of /usr/bin/aws"`) {
		t.Errorf("journaled %s", told)
	}
	end()
	if list := must.Get(w.vault.Leases.List(ann))(t); len(list) != 0 || slices.ContainsFunc(values[0], func(b byte) bool { return b != 0 }) {
		t.Errorf("after the end: %+v, %q", list, values[0])
	}
	for name, i := range map[string]tool.Injection{"short": all[2], "another version": {Secret: "global/aws", Version: 2, Env: "AWS_KEY"}} {
		values, end, err := w.Inject(t.Context(), c, []tool.Injection{i}, "x")
		if err == nil || values != nil {
			t.Errorf("%s: %q", name, values)
		}
		end()
	}
	if list := must.Get(w.vault.Leases.List(ann))(t); len(list) != 0 {
		t.Errorf("left are %+v", list)
	}
}

// TestNoValue: no value is returned and no lease stays if the version differs, the caller lacks
// the permission, or the journal fails.
func TestNoValue(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		caller access.Caller
		change func(testVault)
		want   reason.Code
	}{
		"another version": {ann, func(w testVault) { w.put(t, ann, "global", "github", "") }, reason.BindingMismatch},
		"removed": {ann, func(w testVault) {
			must.Do(t, w.vault.Remove(context.Background(), ann, vault.Ref{Scope: "global", Key: "github"}))
		}, reason.NotFound},
		"not permitted": {bob, func(testVault) {}, reason.PermissionDenied},
		"no journal": {ann, func(w testVault) {
			w.store.Fail(reason.Errorf(reason.JournalUnavailable, "full"))
		}, reason.JournalUnavailable},
		"locked": {ann, func(w testVault) { w.keys.Lock() }, reason.VaultLocked},
	} {
		w := newVault(t)
		w.put(t, ann, "global", "github", "")
		lent, end := w.Lend(call(row.caller), []egress.Secret{{Name: "global/github", Version: 1}})
		row.change(w)
		if value, err := lent[0].Source.Secret(t.Context(), "global/github"); reason.Of(err) != row.want || value != nil {
			t.Errorf("%s: %q, %v, want %s", name, value, err, row.want)
		}
		end()
		if list := must.Get(w.vault.Leases.List(ann))(t); len(list) != 0 {
			t.Errorf("%s: leases %+v", name, list)
		}
	}
}
