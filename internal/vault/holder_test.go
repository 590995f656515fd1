package vault_test

import (
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/vault"
)

// These are secrets of an agent and of a skill.
var (
	ofBot = vault.Ref{Scope: "agent:bot", Key: "api"}
	ofWeb = vault.Ref{Scope: "skill:web", Key: "api"}
)

// held returns a world whose bot stores its own secrets.
func held(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.judge[bot.Principal] = []access.Permission{access.PermVaultList, access.PermVaultPut, access.PermVaultGet, access.PermSecretLease}
	return w
}

// uses tries every operation that reveals or offers the value of a secret.
func (w *world) uses(t *testing.T, b vault.Borrower, ref vault.Ref) (errs []error, offered int) {
	t.Helper()
	_, _, revealed := w.Reveal(t.Context(), b.Caller, ref, 0)
	_, injected := w.Injectable(t.Context(), b, ref)
	_, leased := w.Lease(t.Context(), b, vault.LeaseRequest{Ref: ref, Call: "c", Until: w.at.Add(60e9)})
	list, _, err := w.Placeholders(t.Context(), b, 100, func(vault.Placeholder) bool { return true })
	must.Do(t, err)
	injectables := must.Get(w.Injectables(t.Context(), b))(t)
	return []error{revealed, injected, leased}, len(list) + len(injectables)
}

// endings ends the secrets of the bot, as a change of its owner does.
func (w *world) endings(t *testing.T) {
	t.Helper()
	for _, e := range must.Get(w.Endings(t.Context(), access.User("root"), bot.Principal))(t) {
		must.Do(t, w.store.Journal(t.Context(), e))
	}
	must.Do(t, w.EndOf(t.Context(), bot.Principal))
}

// TestNewOwnerOfAnAgent: a new owner of an agent does not get the agent's secrets, and neither
// does the former owner after another change. A value of the new owner starts a new secret.
func TestNewOwnerOfAnAgent(t *testing.T) {
	t.Parallel()
	w := held(t)
	b := vault.Borrower{Caller: bot}
	put := func(ref vault.Ref, value string, set vault.Metadata) vault.Secret {
		t.Helper()
		return must.Get(w.Put(t.Context(), bot, ref, []byte(value), set))(t)
	}
	placed := vault.Ref{Scope: ofBot.Scope, Key: "placed"}
	put(ofBot, "value of ann", vault.Metadata{Env: p("API"), Note: p("of ann")})
	put(placed, "value-of-ann", vault.Metadata{Hosts: p([]string{"api.example.org:443"})})
	w.put(t, token, "not of an agent")

	wants := func(when string, code reason.Code) {
		t.Helper()
		errs, offered := w.uses(t, b, ofBot)
		for _, err := range errs {
			reasontest.Want(t, when, err, code)
		}
		if (offered == 2) != (code == "") || code != "" && offered != 0 {
			t.Errorf("%s: %d secrets are offered", when, offered)
		}
	}
	wants("the control: ann's own agent", "")
	w.holders["agent:bot"] = "user:bob"
	wants("an owner changed without an event", reason.SecretEnded)
	w.holders["agent:bot"] = "user:ann"
	wants("the control: ann's again without an event", "")
	since := len(w.store.Events())
	w.endings(t)
	codes := w.codes(since)
	if n := strings.Count(strings.Join(texts(codes), " "), string(event.SecretEnded)); n != 2 {
		t.Errorf("the journal has %v", codes)
	}
	wants("ended, and with the former owner again", reason.SecretEnded)
	w.holders["agent:bot"] = "user:bob"
	wants("ended, with a new owner", reason.SecretEnded)
	if list := must.Get(w.Endings(t.Context(), access.User("root"), bot.Principal))(t); len(list) != 0 {
		t.Errorf("they end twice: %v", list)
	}

	for _, m := range append(must.Get(w.List(t.Context(), bot, vault.Page{Scope: ofBot.Scope, Limit: 9}))(t), must.Get(w.Get(t.Context(), bot, ofBot))(t)) {
		if m.Ended == nil || m.Holder != "user:ann" || m.Note+m.Env != "" || len(m.Hosts) != 0 || !strings.Contains(m.Ended.NextStep(), "palyra vault put "+m.Ref.String()) {
			t.Errorf("listed as %+v", m)
		}
	}
	_, err := w.Put(t.Context(), bot, ofBot, nil, vault.Metadata{Note: p("mine")})
	reasontest.Want(t, "metadata alone", err, reason.SecretEnded)
	if m := put(ofBot, "value of bob", vault.Metadata{Env: p("API")}); m.Version != 2 || len(m.Versions) != 1 || m.Note != "" || m.Holder != "user:bob" || m.Ended != nil {
		t.Errorf("put anew: %+v", m)
	}
	_, _, err = w.Reveal(t.Context(), bot, ofBot, 1)
	reasontest.Want(t, "the value of the former owner", err, reason.NotFound)
	value, _, err := w.Reveal(t.Context(), bot, ofBot, 0)
	if err != nil || string(value) != "value of bob" {
		t.Errorf("%q, %v", value, err)
	}
}

func texts(codes []event.Code) (list []string) {
	for _, c := range codes {
		list = append(list, string(c))
	}
	return list
}

// TestLeaseEndsWithTheOwner: a change of the owner ends existing leases.
func TestLeaseEndsWithTheOwner(t *testing.T) {
	t.Parallel()
	w := held(t)
	must.Get(w.Put(t.Context(), bot, ofBot, []byte("value of ann"), vault.Metadata{}))(t)
	h := must.Get(w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: ofBot, Call: "c", Until: w.at.Add(60e9)}))(t)
	must.Get(h.Value(t.Context(), "the control"))(t)
	w.endings(t)
	if _, err := h.Value(t.Context(), "later"); err == nil {
		t.Error("the lease goes on")
	}
}

// TestSkillOfAnotherKey: a skill with the same id but another signing key does not get the
// secrets. They are available again with the first publisher's key.
func TestSkillOfAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := vault.Borrower{Caller: ann, Skill: "web"}
	if m := must.Get(w.Put(t.Context(), ann, ofWeb, []byte("value"), vault.Metadata{Env: p("API")}))(t); m.Holder != "SHA256:first" {
		t.Errorf("it belongs to %q", m.Holder)
	}
	for _, c := range []struct {
		key  string
		code reason.Code
	}{{"SHA256:first", ""}, {"SHA256:other", reason.SecretEnded}, {"", reason.SecretEnded}, {"SHA256:first", ""}} {
		w.holders["skill:web"] = c.key
		_, err := w.Lease(t.Context(), b, vault.LeaseRequest{Ref: ofWeb, Call: "c", Until: w.at.Add(60e9)})
		reasontest.Want(t, "a lease with the key "+c.key, err, c.code)
		if m := must.Get(w.Get(t.Context(), ann, ofWeb))(t); (m.Ended != nil) != (c.code != "") {
			t.Errorf("with the key %q it is %+v", c.key, m)
		}
	}
}

// TestPutForNobody: a secret for an agent or skill that does not exist is refused, because a
// later holder of the name would get it.
func TestPutForNobody(t *testing.T) {
	t.Parallel()
	w := held(t)
	for _, ref := range []vault.Ref{ofBot, ofWeb} {
		w.holders[ref.Scope] = ""
		who := ann
		if ref == ofBot {
			who = bot
		}
		_, err := w.Put(t.Context(), who, ref, []byte("value"), vault.Metadata{})
		reasontest.Want(t, ref.Scope, err, reason.NotFound)
		if reason.Known(err, "").NextStep() == "" {
			t.Errorf("%v has no next step", err)
		}
	}
}

// TestSecretsOfAnOlderRelease: a secret of an older release belongs to the holder at the
// upgrade, or to nobody if there was none.
func TestSecretsOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	for heldBy, c := range map[string]struct {
		now  string
		code reason.Code
	}{"user:ann": {"user:ann", ""}, "user:bob": {"user:ann", reason.SecretEnded}, "": {"user:ann", reason.SecretEnded}} {
		w := held(t)
		must.Get(w.Put(t.Context(), bot, ofBot, []byte("value"), vault.Metadata{}))(t)
		w.store.Edit(ofBot, func(r *vault.Record) {
			must.Do(t, vault.Reseal(t.Context(), w.Service, r, func(m *vault.Secret) { m.Holder = "" }))
			r.HeldBy = heldBy
		})
		w.store.EditEvents(func([]byte) []byte { return []byte(`{"version":1}`) })
		_, err := w.Lease(t.Context(), vault.Borrower{Caller: bot}, vault.LeaseRequest{Ref: ofBot, Call: "c", Until: w.at.Add(60e9)})
		reasontest.Want(t, "held by "+heldBy, err, c.code)
	}
}
