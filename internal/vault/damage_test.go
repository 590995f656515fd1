package vault_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
)

// A damaged record is not readable and is named in the error; all others remain readable.
func TestDamage(t *testing.T) {
	t.Parallel()
	other, third := vault.Ref{Scope: "user:ann", Key: "token"}, vault.Ref{Scope: "global", Key: "third"}
	for name, c := range map[string]struct {
		damage func(t *testing.T, w *world)
		// onlyValue is true if the metadata are intact.
		onlyValue bool
	}{
		"a box of another secret": {func(t *testing.T, w *world) {
			theirs := must.Get(w.store.Record(t.Context(), other))(t)
			w.store.Edit(token, func(r *vault.Record) { r.Versions[1].Box = theirs.Versions[1].Box })
		}, true},
		"a version of another secret": {func(t *testing.T, w *world) {
			theirs := must.Get(w.store.Record(t.Context(), other))(t)
			w.store.Edit(token, func(r *vault.Record) { r.Versions[1] = theirs.Versions[1] })
		}, false},
		"another secret as it is": {func(t *testing.T, w *world) {
			theirs := must.Get(w.store.Record(t.Context(), other))(t)
			w.store.Edit(token, func(r *vault.Record) { *r = theirs; r.Ref = token })
		}, false},
		"metadata of another secret": {func(t *testing.T, w *world) {
			theirs := must.Get(w.store.Record(t.Context(), other))(t)
			w.store.Edit(token, func(r *vault.Record) { r.Metadata, r.Seal = theirs.Metadata, theirs.Seal })
		}, false},
		"metadata of the version before": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Metadata, r.Seal = w.before.Metadata, w.before.Seal })
		}, false},
		"another host": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) {
				r.Metadata = bytes.Replace(r.Metadata, []byte("api.example.org"), []byte("evil.example.org"), 1)
			})
		}, false},
		"the older version called the newest": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Newest = 1 })
		}, false},
		"two versions swapped": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) {
				r.Versions[0].Box, r.Versions[1].Box = r.Versions[1].Box, r.Versions[0].Box
				r.Versions[0].Key, r.Versions[1].Key = r.Versions[1].Key, r.Versions[0].Key
			})
		}, false},
		"two boxes swapped": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Versions[0].Box, r.Versions[1].Box = r.Versions[1].Box, r.Versions[0].Box })
		}, true},
		"a bit of the box": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Versions[1].Box[30] ^= 1 })
		}, true},
		"a short box": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Versions[1].Box = []byte("x") })
		}, true},
		"a bit of the wrapped key": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Versions[1].Key[30] ^= 1 })
		}, false},
		"a bit of the seal": {func(_ *testing.T, w *world) { w.store.Edit(token, func(r *vault.Record) { r.Seal[0] ^= 1 }) }, false},
		"the whole state of before": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { *r = w.before })
		}, false},
		"no newest version": {func(_ *testing.T, w *world) {
			w.store.Edit(token, func(r *vault.Record) { r.Versions = r.Versions[:1] })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, ref := range []vault.Ref{token, other, third} {
				set := vault.Metadata{Hosts: p([]string{"api.example.org:443"})}
				must.Get(w.Put(t.Context(), ann, ref, []byte("first-value"), set))(t)
				if ref == token {
					w.before = must.Get(w.store.Record(t.Context(), token))(t)
				}
				must.Get(w.Put(t.Context(), ann, ref, []byte("second-value"), set))(t)
			}
			events := len(w.store.Events())
			c.damage(t, w)
			value, _, err := w.Reveal(t.Context(), ann, token, 0)
			reasontest.Want(t, "reveal", err, reason.SecretUnreadable)
			if value != nil || !strings.Contains(err.Error(), token.String()) || len(w.store.Events()) != events {
				t.Errorf("%q came out, %v, %d events", value, err, len(w.store.Events())-events)
			}
			_, err = w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(time.Hour)})
			reasontest.Want(t, "lease", err, reason.SecretUnreadable)
			if !c.onlyValue {
				_, err = w.Get(t.Context(), ann, token)
				reasontest.Want(t, "get", err, reason.SecretUnreadable)
			}
			if got := w.reveal(t, third); got != "second-value" {
				t.Errorf("another secret is %q", got)
			}
			list := must.Get(w.List(t.Context(), ann, vault.Page{Limit: 9}))(t)
			broken := slices.IndexFunc(list, func(m vault.Secret) bool { return m.Unreadable != nil })
			if len(list) != 3 || (broken >= 0) == c.onlyValue || broken >= 0 && list[broken].Ref != token {
				t.Errorf("the list is %+v", list)
			}
			// The secret can be removed and created again.
			must.Do(t, w.Remove(t.Context(), ann, token))
			w.put(t, token, "third-value")
			if got := w.reveal(t, token); got != "third-value" {
				t.Errorf("made anew it is %q", got)
			}
		})
	}
}

// An attacker with write access to the store restores an older state, which is authentic: a
// replaced value, removed hosts, or a removed secret. None of it is readable. Controls: a
// journal without seals, as in older releases, and the latest state.
func TestOlderStates(t *testing.T) {
	t.Parallel()
	hosts := func(list ...string) vault.Metadata { return vault.Metadata{Hosts: &list} }
	put := func(t *testing.T, w *world, value []byte, set vault.Metadata) {
		t.Helper()
		w.at = w.at.Add(time.Minute)
		must.Get(w.Put(t.Context(), ann, token, value, set))(t)
	}
	for name, c := range map[string]struct {
		since func(t *testing.T, w *world)
		// unsaid is the value that is readable if the events have no seals.
		unsaid string
	}{
		"another value since": {func(t *testing.T, w *world) { put(t, w, []byte("second-value"), vault.Metadata{}) }, ""},
		"other hosts since":   {func(t *testing.T, w *world) { put(t, w, nil, hosts("api.example.org:443")) }, "first-value"},
		"an end since":        {func(t *testing.T, w *world) { put(t, w, nil, vault.Metadata{Expires: p(w.at.Add(time.Hour))}) }, "first-value"},
		"removed since":       {func(t *testing.T, w *world) { must.Do(t, w.Remove(t.Context(), ann, token)) }, ""},
		"removed, and made new": {func(t *testing.T, w *world) {
			must.Do(t, w.Remove(t.Context(), ann, token))
			put(t, w, []byte("new-value"), vault.Metadata{})
		}, "first-value"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			put(t, w, []byte("first-value"), hosts("api.example.org:443", "evil.example.org:443"))
			w.before = must.Get(w.store.Record(t.Context(), token))(t)
			c.since(t, w)
			w.store.Edit(token, func(r *vault.Record) { *r = w.before })
			value, _, err := w.Reveal(t.Context(), ann, token, 0)
			if reasontest.Want(t, "reveal", err, reason.SecretUnreadable); value != nil || !strings.Contains(err.Error(), token.String()) {
				t.Errorf("%q came out, %v", value, err)
			}
			_, err = w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: token, Call: "c", Until: w.at.Add(time.Hour)})
			reasontest.Want(t, "lease", err, reason.SecretUnreadable)
			_, err = w.Put(t.Context(), ann, token, []byte("over-it"), vault.Metadata{})
			reasontest.Want(t, "put", err, reason.SecretUnreadable)
			if list := must.Get(w.List(t.Context(), ann, vault.Page{Limit: 9}))(t); len(list) != 1 || list[0].Unreadable == nil {
				t.Errorf("the list is %+v", list)
			}
			if list := w.placeholders(t, ann); len(list) != 0 {
				t.Errorf("calls may use %+v", list)
			}
			w.store.EditEvents(func(payload []byte) []byte { return unsealed.ReplaceAll(payload, nil) })
			if value, _, _ := w.Reveal(t.Context(), ann, token, 0); string(value) != c.unsaid {
				t.Errorf("the control reads %q", value)
			}
			must.Do(t, w.Remove(t.Context(), ann, token))
			w.put(t, token, "third-value")
			if got := w.reveal(t, token); got != "third-value" {
				t.Errorf("made anew it is %q", got)
			}
		})
	}
}

var unsealed = regexp.MustCompile(`"seal":"[^"]*",`)
