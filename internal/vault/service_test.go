package vault_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
)

func TestPutAndReveal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := 1; i <= 7; i++ {
		if m := w.put(t, token, fmt.Sprintf("value-%d", i)); m.Version != i {
			t.Errorf("put %d made version %d", i, m.Version)
		}
	}
	if got := w.reveal(t, token); got != "value-7" {
		t.Errorf("the newest value is %q", got)
	}
	for version := 3; version <= 7; version++ {
		value, _, err := w.Reveal(t.Context(), ann, token, version)
		if err != nil || string(value) != fmt.Sprintf("value-%d", version) {
			t.Errorf("version %d: %q, %v", version, value, err)
		}
	}
	_, _, err := w.Reveal(t.Context(), ann, token, 2)
	reasontest.Want(t, "a version that is not kept", err, reason.NotFound)
	m := must.Get(w.Get(t.Context(), bob, token))(t)
	if len(m.Versions) != vault.KeptVersions || m.Versions[0].Version != 3 || m.Versions[0].By != ann.Principal || !m.Versions[0].At.Equal(w.at) {
		t.Errorf("history %v", m.Versions)
	}
	if n := len(must.Get(w.store.Record(t.Context(), token))(t).Versions); n != vault.KeptVersions {
		t.Errorf("%d versions are stored", n)
	}
	must.Do(t, w.Remove(t.Context(), ann, token))
	_, err = w.Get(t.Context(), ann, token)
	reasontest.Want(t, "a removed secret", err, reason.NotFound)
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "first-value")
	w.at = w.at.Add(time.Hour)
	set := vault.Metadata{
		Note: p("deploys"), Expires: p(w.at.Add(time.Hour)), Hosts: p([]string{"api.example.org:443"}), Env: p("TOKEN"), File: p("token"),
	}
	must.Get(w.Put(t.Context(), ann, token, nil, set))(t)
	m := must.Get(w.Get(t.Context(), ann, token))(t)
	if m.Version != 1 || m.Note != "deploys" || m.Header != "Authorization" || m.Env != "TOKEN" || m.File != "token" || !m.ExpiresAt.Equal(w.at.Add(time.Hour)) ||
		!m.UpdatedAt.Equal(w.at) || !m.CreatedAt.Equal(w.at.Add(-time.Hour)) {
		t.Errorf("metadata %+v", m)
	}
	// A new value keeps the metadata of the old one.
	if m := w.put(t, token, "second-value"); m.Note != "deploys" || len(m.Hosts) != 1 || m.Version != 2 {
		t.Errorf("after another value: %+v", m)
	}
	_, err := w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "none"}, nil, set)
	reasontest.Want(t, "metadata of no secret", err, reason.NotFound)
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	hosts := p([]string{"api.example.org:443"})
	for name, c := range map[string]struct {
		ref   string
		value string
		set   vault.Metadata
		want  reason.Code
	}{
		"an empty value":           {"global/x", "", vault.Metadata{}, reason.InvalidInput},
		"a large value":            {"global/x", strings.Repeat("x", vault.MaxValue+1), vault.Metadata{}, reason.InputTooLarge},
		"an end that is over":      {"global/x", "value", vault.Metadata{Expires: p(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC))}, reason.InvalidInput},
		"a note of two lines":      {"global/x", "value", vault.Metadata{Note: p("a\nb")}, reason.InvalidInput},
		"a long note":              {"global/x", "value", vault.Metadata{Note: p(strings.Repeat("x", 501))}, reason.InvalidInput},
		"a host without a port":    {"global/x", "long-enough", vault.Metadata{Hosts: p([]string{"example.org"})}, reason.InvalidInput},
		"plain HTTP":               {"global/x", "long-enough", vault.Metadata{Hosts: p([]string{"example.org:80"})}, reason.InvalidInput},
		"everybody's hosts":        {"global/x", "long-enough", vault.Metadata{Hosts: p([]string{"*.co.uk:443"})}, reason.InvalidInput},
		"a header of the way":      {"global/x", "long-enough", vault.Metadata{Hosts: hosts, Header: p("Host")}, reason.InvalidInput},
		"two lines for a header":   {"global/x", "long\nenough", vault.Metadata{Hosts: hosts}, reason.InvalidInput},
		"too little for a header":  {"global/x", "short", vault.Metadata{Hosts: hosts}, reason.InvalidInput},
		"too much for a header":    {"global/x", strings.Repeat("x", 4097), vault.Metadata{Hosts: hosts}, reason.InvalidInput},
		"a variable of two words":  {"global/x", "value", vault.Metadata{Env: p("A B")}, reason.InvalidInput},
		"a file elsewhere":         {"global/x", "value", vault.Metadata{File: p("../x")}, reason.InvalidInput},
		"the directory above":      {"global/x", "value", vault.Metadata{File: p("..")}, reason.InvalidInput},
		"the directory itself":     {"global/x", "value", vault.Metadata{File: p(".")}, reason.InvalidInput},
		"a file of another K":      {"global/x", "value", vault.Metadata{File: p("\u212aey")}, reason.InvalidInput},
		"a key that goes up":       {"global/..", "value", vault.Metadata{}, reason.InvalidInput},
		"a key that goes nowhere":  {"global/.", "value", vault.Metadata{}, reason.InvalidInput},
		"somebody else's secret":   {"user:bob/x", "value", vault.Metadata{}, reason.PermissionDenied},
		"a scope that is none":     {"team:x/x", "value", vault.Metadata{}, reason.InvalidInput},
		"a scope of channels":      {"channel:ops/x", "value", vault.Metadata{}, reason.InvalidInput},
		"a scope of nodes":         {"node:n1/x", "value", vault.Metadata{}, reason.InvalidInput},
		"a scope without a name":   {"user:/x", "value", vault.Metadata{}, reason.InvalidInput},
		"a global scope of a name": {"global:x/x", "value", vault.Metadata{}, reason.InvalidInput},
		"a key with a slash":       {"global/x/y", "value", vault.Metadata{}, reason.InvalidInput},
		"a key in capitals":        {"global/X", "value", vault.Metadata{}, reason.InvalidInput},
		"a long key":               {"global/" + strings.Repeat("x", 129), "value", vault.Metadata{}, reason.InvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			scope, key, _ := strings.Cut(c.ref, "/")
			_, err := w.Put(t.Context(), ann, vault.Ref{Scope: scope, Key: key}, []byte(c.value), c.set)
			reasontest.Want(t, name, err, c.want)
			if len(w.store.Events()) > 0 || err != nil && c.value != "" && len(c.value) > 4 && strings.Contains(err.Error(), c.value) {
				t.Errorf("%d events; %v", len(w.store.Events()), err)
			}
			// The same secret without the invalid part is accepted.
			must.Get(w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "x"}, []byte("long-enough"), vault.Metadata{Hosts: hosts}))(t)
		})
	}
}

// Hosts that are added later require the same form of the value as at its put.
func TestHostsAddedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for value, fit := range map[string]bool{"two\nlines-of-it": false, "one-line-of-it": true} {
		w.put(t, token, value)
		_, err := w.Put(t.Context(), ann, token, nil, vault.Metadata{Hosts: p([]string{"api.example.org:443"})})
		if (err == nil) != fit {
			t.Errorf("hosts for %q: %v", value, err)
		}
		must.Do(t, w.Remove(t.Context(), ann, token))
	}
}

// TestCallerIsRequired: every access to a value requires a caller, a permission and the journal.
func TestCallerIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	// A policy for the empty principal does not permit a caller without a principal.
	w.judge[access.Principal{}] = w.judge[ann.Principal]
	ctx := t.Context()
	for who, want := range map[*access.Caller]reason.Code{{}: reason.PermissionDenied, &bob: reason.PermissionDenied, {Principal: access.User("eve")}: reason.PermissionDenied} {
		for what, do := range map[string]func() error{
			"put":    func() error { _, err := w.Put(ctx, *who, token, []byte("x"), vault.Metadata{}); return err },
			"set":    func() error { _, err := w.Put(ctx, *who, token, nil, vault.Metadata{}); return err },
			"remove": func() error { return w.Remove(ctx, *who, token) },
			"reveal": func() error {
				value, _, err := w.Reveal(ctx, *who, token, 0)
				if value != nil {
					t.Errorf("%s got a value", who.Principal)
				}
				return err
			},
			"lease": func() error {
				h, err := w.Lease(ctx, vault.Borrower{Caller: *who}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(time.Hour)})
				if h != nil {
					t.Errorf("%s got a lease", who.Principal)
				}
				return err
			},
			// The error does not disclose whether the secret exists.
			"reveal nothing": func() error { _, _, err := w.Reveal(ctx, *who, vault.Ref{Scope: "global", Key: "no"}, 0); return err },
		} {
			reasontest.Want(t, who.Principal.String()+" "+what, do(), want)
		}
	}
	for what, do := range map[string]func(access.Caller) error{
		"get":    func(c access.Caller) error { _, err := w.Get(ctx, c, token); return err },
		"list":   func(c access.Caller) error { _, err := w.List(ctx, c, vault.Page{Limit: 9}); return err },
		"leases": func(c access.Caller) error { _, err := w.Leases.List(c); return err },
		"placeholders": func(c access.Caller) error {
			_, _, err := w.Placeholders(ctx, vault.Borrower{Caller: c}, 1, func(vault.Placeholder) bool { return true })
			return err
		},
	} {
		reasontest.Want(t, "nobody's "+what, do(access.Caller{}), reason.PermissionDenied)
	}
	if got := w.codes(0); !slices.Equal(got, []event.Code{event.SecretPut}) {
		t.Errorf("events %v", got)
	}
	if got := w.reveal(t, token); got != "the value" {
		t.Errorf("the value is %q", got)
	}
}

// TestJournalIsRequired: if the event cannot be journaled, no value is returned and nothing
// changes.
func TestJournalIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	ctx, full := t.Context(), errors.New("disk full")
	h := must.Get(w.Lease(ctx, vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(time.Hour)}))(t)
	w.store.Fail(full)
	value, _, err := w.Reveal(ctx, ann, token, 0)
	if !errors.Is(err, full) || value != nil {
		t.Errorf("reveal: %q, %v", value, err)
	}
	if got, err := w.Lease(ctx, vault.Borrower{Caller: ann}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(time.Hour)}); !errors.Is(err, full) || got != nil {
		t.Errorf("lease: %v", err)
	}
	if value, err := h.Value(ctx, "api.example.org"); !errors.Is(err, full) || value != nil {
		t.Errorf("use: %q, %v", value, err)
	}
	if err := w.Remove(ctx, ann, token); !errors.Is(err, full) {
		t.Errorf("remove: %v", err)
	}
	if _, err := w.Put(ctx, ann, token, []byte("another"), vault.Metadata{}); !errors.Is(err, full) {
		t.Errorf("put: %v", err)
	}
	// A lease ends even if its end cannot be journaled.
	if err := h.End(ctx); !errors.Is(err, full) {
		t.Errorf("end: %v", err)
	}
	w.store.Fail(nil)
	_, err = h.Value(ctx, "api.example.org")
	reasontest.Want(t, "a use after the end", err, reason.NotFound)
	if got := w.reveal(t, token); got != "the value" {
		t.Errorf("the value is %q", got)
	}
	if got := w.codes(0); !slices.Equal(got, []event.Code{event.SecretPut, event.SecretLeased, event.SecretRead}) {
		t.Errorf("events %v", got)
	}
}

func TestEventsContainNoValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "hush-hush-value")
	w.reveal(t, token)
	h := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Run: "r", Until: w.at.Add(time.Hour)}))(t)
	must.Get(h.Value(t.Context(), "h"))(t)
	must.Do(t, w.Remove(t.Context(), ann, token))
	for _, e := range w.store.Events() {
		text := strings.ToLower(string(e.Payload))
		if e.Subject != "vault://global/token" || strings.Contains(text, "hush") || strings.Contains(text, "sha") || strings.Contains(text, "size") {
			t.Errorf("%s of %s: %s", e.Code, e.Subject, e.Payload)
		}
	}
	if got := w.codes(0); !slices.Equal(got, []event.Code{
		event.SecretPut, event.SecretRead, event.SecretLeased, event.SecretUsed, event.SecretRemoved, event.SecretLeaseEnded,
	}) {
		t.Errorf("events %v", got)
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.Put(t.Context(), ann, token, []byte("long-enough"), vault.Metadata{Expires: p(w.at.Add(time.Hour)), Hosts: p([]string{"h.example.org:443"})}))(t)
	h := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Run: "r", Until: w.at.Add(9 * time.Hour)}))(t)
	w.at = w.at.Add(time.Hour - time.Microsecond)
	must.Get(h.Value(t.Context(), "h"))(t)
	if got := w.reveal(t, token); got != "long-enough" || len(w.placeholders(t, bot)) != 1 {
		t.Errorf("before the end: %q", got)
	}
	w.at = w.at.Add(time.Microsecond)
	_, _, err := w.Reveal(t.Context(), ann, token, 0)
	reasontest.Want(t, "reveal", err, reason.SecretExpired)
	_, err = w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Run: "r", Until: w.at.Add(time.Hour)})
	reasontest.Want(t, "lease", err, reason.SecretExpired)
	_, err = h.Value(t.Context(), "h")
	reasontest.Want(t, "a lease of before", err, reason.NotFound)
	if got := w.placeholders(t, bot); len(got) != 0 {
		t.Errorf("placeholders %v", got)
	}
	_, err = w.Put(t.Context(), ann, token, []byte("another-one"), vault.Metadata{})
	reasontest.Want(t, "a value that is over already", err, reason.InvalidInput)
	must.Get(w.Put(t.Context(), ann, token, []byte("another-one"), vault.Metadata{Expires: p(time.Time{})}))(t)
	if got := w.reveal(t, token); got != "another-one" {
		t.Errorf("after another value: %q", got)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "the value")
	w.keys.Lock()
	_, _, err := w.Reveal(t.Context(), ann, token, 0)
	reasontest.Want(t, "reveal", err, reason.VaultLocked)
	if !strings.Contains(fmt.Sprint(err), "vault://global/token") {
		t.Errorf("it does not name the secret: %v", err)
	}
	_, err = w.List(t.Context(), ann, vault.Page{Limit: 9})
	reasontest.Want(t, "list", err, reason.VaultLocked)
	_, err = w.Put(t.Context(), ann, vault.Ref{Scope: "global", Key: "x"}, []byte("x"), vault.Metadata{})
	reasontest.Want(t, "put", err, reason.VaultLocked)
}

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.judge[bob.Principal] = []access.Permission{access.PermVaultList, access.PermVaultPut}
	for _, name := range []string{"global/b", "global/a", "user:ann/c", "agent:x/d"} {
		ref := must.Get(vault.ParseRef(name))(t)
		w.judge[ref.Principal()] = []access.Permission{access.PermVaultPut}
		who := ann
		if ref.Scope == "agent:x" {
			who = access.Caller{Principal: access.Agent("x")}
		}
		must.Get(w.Put(t.Context(), who, ref, []byte("v"), vault.Metadata{}))(t)
		w.judge[ann.Principal] = []access.Permission{access.PermVaultList, access.PermVaultPut, access.PermVaultGet}
	}
	names := func(who access.Caller, page vault.Page) (names []string) {
		for _, m := range must.Get(w.List(t.Context(), who, page))(t) {
			names = append(names, m.Ref.Name())
		}
		return names
	}
	for name, c := range map[string]struct {
		who  access.Caller
		page vault.Page
		want []string
	}{
		"all":        {ann, vault.Page{Limit: 9}, []string{"global/a", "global/b", "user:ann/c"}},
		"others":     {bob, vault.Page{Limit: 9}, []string{"global/a", "global/b"}},
		"a page":     {ann, vault.Page{Limit: 1}, []string{"global/a"}},
		"the next":   {ann, vault.Page{Limit: 1, After: vault.Ref{Scope: "global", Key: "a"}}, []string{"global/b"}},
		"one scope":  {ann, vault.Page{Limit: 9, Scope: "user:ann"}, []string{"user:ann/c"}},
		"not theirs": {bob, vault.Page{Limit: 9, Scope: "user:ann"}, nil},
	} {
		if got := names(c.who, c.page); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Concurrent puts each get their own version, and every read returns one of the values.
func TestConcurrentPuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, token, "v0")
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			if _, err := w.Put(t.Context(), ann, token, fmt.Appendf(nil, "v%d", i), vault.Metadata{}); err != nil {
				t.Error(err)
			}
			if value, _, err := w.Reveal(t.Context(), ann, token, 0); err != nil || value[0] != 'v' {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
	group.Wait()
	if m := must.Get(w.Get(t.Context(), ann, token))(t); m.Version != 5 {
		t.Errorf("version %d after 5 puts", m.Version)
	}
}
