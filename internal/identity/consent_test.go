package identity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// by returns a member as a caller with its own device.
func (w *world) by(p access.Principal) access.Caller {
	for _, d := range w.Directory.Devices() {
		if d.Principal == p && !d.Revoked() {
			return access.Caller{Principal: p, OnBehalfOf: p, DeviceID: d.ID, Paired: true}
		}
	}
	w.t.Fatalf("%s has no device", p)
	return access.Caller{}
}

func (w *world) consent(p access.Principal, agent string, withdraw bool) error {
	_, err := w.Consents.ConsentToAgent(w.t.Context(), w.by(p), identity.Consent{Agent: agent, Withdraw: withdraw})
	return err
}

// adopt adds an agent as a member.
func (w *world) adopt(by, owner access.Principal, name string) identity.Admission {
	w.t.Helper()
	return must.Get(w.Members.AddMember(w.t.Context(), by, name, access.KindAgent, []access.Role{access.RoleAgent}, owner, csr(w.t), true))(w.t)
}

// TestAgentWaitsForItsOwner: an agent that another member created waits for its owner's
// consent. Its device can connect only to receive an error that names the missing consent. The
// owner consents, and may withdraw the consent.
func TestAgentWaitsForItsOwner(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	var cut []access.Principal
	bob := access.User("bob")
	n := len(w.store.Events())
	made := w.adopt(access.User("alice"), bob, "scout")
	waits := func(when string) {
		t.Helper()
		_, err := w.Callers.Authenticate(chainOf(made))
		if reason.Of(err) != reason.Unauthenticated || err.Error() != "agent:scout waits for the consent of user:bob" {
			t.Errorf("%s: %v", when, err)
		}
		if got := reason.Known(err, "").NextStep(); got != "user:bob agrees that it acts in their name: `palyra members consent agent:scout`." {
			t.Errorf("%s: what to do is %q", when, got)
		}
		if err := w.Callers.Allow(chainOf(made)); err != nil {
			t.Errorf("%s: the handshake: %v", when, err)
		}
		if got := w.Notices.Waiting(bob); len(got) != 1 || got[0] != access.Agent("scout") {
			t.Errorf("%s: bob is told of %v", when, got)
		}
		if _, err := w.Certificates.Renew(t.Context(), made.Device.ID, "", csr(t)); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("%s: renewing: %v", when, err)
		}
	}
	waits("made by alice")
	hands := w.controllers(access.Agent("scout"))
	w.restart()
	waits("after a restart")
	must.Do(t, w.consent(bob, "scout", false))
	if c := must.Get(w.Callers.Authenticate(chainOf(made)))(t); c.OnBehalfOf != bob || len(w.Notices.Waiting(bob)) > 0 {
		t.Errorf("it acts for %s, and %v wait", c.OnBehalfOf, w.Notices.Waiting(bob))
	}
	must.Do(t, w.consent(bob, "agent:scout", false)) // a repetition changes nothing
	w.OpenWork.OnCut(func(p access.Principal, _ *reason.Error) { cut = append(cut, p) })
	must.Do(t, w.consent(bob, "scout", true))
	if len(cut) != 1 || cut[0] != access.Agent("scout") {
		t.Errorf("ended what is open of %v", cut)
	}
	waits("withdrawn")
	w.journaled(n, event.MemberAdded, event.CertificateMade, event.ConsentGiven, event.ConsentWithdrawn)
	if got := w.controllers(access.Agent("scout")); got != hands {
		t.Errorf("consent changed in whose hands it is from %q to %q", hands, got)
	}
}

// TestWhoConsents: only the owner can consent, with a device, and only for an agent.
func TestWhoConsents(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	bob := access.User("bob")
	w.adopt(access.User("alice"), bob, "scout")
	token, unpaired, borrowed, revoked := w.by(bob), w.by(bob), w.by(bob), w.by(bob)
	token.Token = &access.TokenBounds{Creator: bob}
	unpaired.Paired = false
	borrowed.DeviceID = w.by(access.User("alice")).DeviceID
	revoked.DeviceID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	n := len(w.store.Events())
	for name, x := range map[string]struct {
		by   access.Caller
		who  string
		want reason.Code
	}{
		"an owner of the gateway": {w.by(access.User("alice")), "scout", reason.NotFound},
		"an admin":                {w.by(access.User("adam")), "scout", reason.NotFound},
		"the agent":               {w.by(access.Agent("scout")), "scout", reason.NotFound},
		"the host":                {access.Caller{Principal: identity.Daemon()}, "scout", reason.NotFound},
		"a token of the owner":    {token, "scout", reason.PermissionDenied},
		"no certificate":          {unpaired, "scout", reason.PermissionDenied},
		"another member's device": {borrowed, "scout", reason.PermissionDenied},
		"no device":               {revoked, "scout", reason.PermissionDenied},
		"to a user":               {w.by(bob), "bob", reason.NotFound},
		"to no member":            {w.by(bob), "nobody", reason.NotFound},
	} {
		if _, err := w.Consents.ConsentToAgent(t.Context(), x.by, identity.Consent{Agent: x.who}); reason.Of(err) != x.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.journaled(n)
	must.Do(t, w.consent(bob, "scout", false)) // control
}

// TestOwnActIsConsent: the owner's own act is consent. On the host, it is so only if no other
// member has the host's device.
func TestOwnActIsConsent(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	local, alice, bob := identity.Local(), access.User("alice"), access.User("bob")
	for _, x := range []struct {
		by, owner access.Principal
		acts      bool
	}{{alice, alice, true}, {alice, bob, false}, {identity.Daemon(), local, true}, {identity.Daemon(), bob, false}} {
		made := w.adopt(x.by, x.owner, fmt.Sprintf("of-%s-%s", x.by.Name, x.owner.Name))
		if _, err := w.Callers.Authenticate(chainOf(made)); (err == nil) != x.acts || made.Member.AwaitsConsent == x.acts {
			t.Errorf("%s made it for %s: %v, %+v", x.by, x.owner, err, made.Member)
		}
	}
}

// randomActs is a world of agents, with the consents of their owners as the test recorded them.
type randomActs struct {
	*world
	users []access.Principal
	made  map[string]identity.Admission
	// consented maps each agent to the owner who has consented since the agent was assigned to them.
	consented map[string]access.Principal
}

// step does one random act, and records its expected effect.
func (d *randomActs) step(r *rand.Rand) string {
	names := []string{"one", "two"}
	name, by, to := names[r.IntN(len(names))], d.users[r.IntN(len(d.users))], d.users[r.IntN(len(d.users))]
	m, known := d.registry.Get(access.Agent(name))
	if !known {
		d.made[name] = d.adopt(by, to, name)
		d.recordConsent(name, by, to)
		return fmt.Sprintf("%s makes %s for %s", by, name, to)
	}
	switch r.IntN(6) {
	case 0, 1:
		if _, err := d.Members.UpdateMember(d.t.Context(), by, identity.MemberChange{Member: name, Owner: to}); err == nil && to != m.Owner {
			d.recordConsent(name, by, to)
		}
		return fmt.Sprintf("%s gives %s to %s", by, name, to)
	case 2, 3:
		if d.consent(by, name, false) == nil {
			d.consented[name] = by
		}
		return fmt.Sprintf("%s consents to %s", by, name)
	case 4:
		if d.consent(by, name, true) == nil {
			delete(d.consented, name)
		}
		return fmt.Sprintf("%s no longer consents to %s", by, name)
	}
	stand := identity.Standing{Member: "agent:" + name, AcceptLoss: true}
	if r.IntN(2) == 0 {
		_, _ = d.Members.DisableMember(d.t.Context(), by, stand)
		return "disabled " + name
	}
	_, _ = d.Members.EnableMember(d.t.Context(), by, stand)
	return "enabled " + name
}

func (d *randomActs) recordConsent(name string, by, to access.Principal) {
	delete(d.consented, name)
	if by == to {
		d.consented[name] = to
	}
}

// wrong names an agent that acts for an owner without consent, or that does not act despite
// consent, without another reason.
func (d *randomActs) wrong() string {
	for name, a := range d.made {
		c, err := d.Callers.Authenticate(chainOf(a))
		m, _ := d.registry.Get(access.Agent(name))
		consented := d.consented[name]
		switch {
		case err == nil && c.OnBehalfOf != consented:
			return fmt.Sprintf("%s acts for %s, and has the word of %q", name, c.OnBehalfOf, consented.String())
		case err != nil && !consented.IsZero() && !m.Disabled:
			return fmt.Sprintf("%s has the word of %s: %v", name, consented, err)
		}
	}
	return ""
}

// TestNobodyActsWithoutConsent: after any sequence of acts, an agent acts only for an owner who
// consented after another member assigned the agent to them. In the control, an agent is accepted
// without consent, and this is detected.
func TestNobodyActsWithoutConsent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		w, _ := team(t)
		for _, p := range []string{"alice", "bob", "carol"} {
			must.Get(w.Members.UpdateMember(t.Context(), identity.Daemon(), identity.MemberChange{Member: p, AddRoles: []access.Role{access.RoleOwner}, AcceptLoss: true}))(t)
		}
		d := &randomActs{w, []access.Principal{access.User("alice"), access.User("bob"), access.User("carol")}, map[string]identity.Admission{}, map[string]access.Principal{}}
		r := rand.New(rand.NewPCG(seed, 16))
		var done []string
		for range 80 {
			done = append(done, d.step(r))
			if r.IntN(20) == 0 {
				d.restart()
			}
			if what := d.wrong(); what != "" {
				t.Fatalf("seed %d: %s, after %q", seed, what, done)
			}
		}
		made := d.adopt(access.User("alice"), access.User("bob"), "control")
		d.made["control"] = made
		if what := d.wrong(); what != "" {
			t.Fatalf("before the control: %s", what)
		}
		m := made.Member
		m.AwaitsConsent = false
		d.registry.Put(m)
		if d.wrong() == "" {
			t.Error("an agent acts without a word, and nothing is wrong")
		}
	}
}

// TestOwnConsent: a binding to a member requires the member's own consent, with a device of its
// own, while no other member created or controls it.
func TestOwnConsent(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	bob, alice := access.User("bob"), access.User("alice")
	refused := func(when string, by access.Caller) {
		t.Helper()
		if err := w.Consents.OwnWord(by); reason.Of(err) != reason.PermissionDenied || reason.Known(err, "").NextStep() == "" {
			t.Errorf("%s: %v", when, err)
		}
	}
	confirm := func(name string) { must.Get(w.Confirmations.ConfirmMember(t.Context(), identity.Daemon(), name))(t) }
	refused("made by another", w.by(bob))
	confirm("bob")
	must.Do(t, w.Consents.OwnWord(w.by(bob))) // control
	for name, change := range map[string]func(c *access.Caller){
		"a token":          func(c *access.Caller) { c.Token = &access.TokenBounds{} },
		"no certificate":   func(c *access.Caller) { c.Paired = false },
		"another's device": func(c *access.Caller) { c.DeviceID = w.by(alice).DeviceID },
		"no device":        func(c *access.Caller) { c.DeviceID = "" },
	} {
		c := w.by(bob)
		change(&c)
		refused(name, c)
	}
	must.Get(w.Members.UpdateMember(t.Context(), alice, identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleDeveloper}}))(t)
	refused("changed by another", w.by(bob))
	confirm("bob")
	must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t), AcceptLoss: true}))(t)
	refused("with a device that another made", w.by(bob))
	confirm("bob")
	must.Do(t, w.Consents.OwnWord(w.by(bob)))
}

// TestOwnerChangeEnds: the effects of a change of owner are in the transaction of the change, and a
// change that cannot end them is not made.
func TestOwnerChangeEnds(t *testing.T) {
	t.Parallel()
	w, _ := team(t)
	var asked []access.Principal
	var fails error
	w.Directory.OnOwner(func(_ context.Context, _, agent access.Principal) ([]event.Draft, error) {
		asked = append(asked, agent)
		return []event.Draft{{Code: event.SecretEnded, Actor: "user:alice", Subject: "vault://agent:helper/k", Payload: []byte(`{}`)}}, fails
	})
	owner := func(of string) error {
		_, err := w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "agent:helper", Owner: access.User(of), AcceptLoss: true})
		return err
	}
	n := len(w.store.Events())
	must.Get(w.Members.UpdateMember(t.Context(), access.User("alice"), identity.MemberChange{Member: "agent:helper", AddRoles: []access.Role{"security"}}))(t)
	w.journaled(n, event.MemberChanged) // control: the same owner
	n = len(w.store.Events())
	must.Do(t, owner("carol"))
	w.journaled(n, event.MemberChanged, event.SecretEnded)
	fails = errors.New("the store cannot be read")
	if err := owner("bob"); err == nil {
		t.Error("changed without the ends")
	}
	if m, _ := w.registry.Get(access.Agent("helper")); m.Owner != access.User("carol") {
		t.Errorf("the owner is %s", m.Owner)
	}
	fails = nil
	must.Get(w.Members.RemoveMember(t.Context(), access.User("alice"), identity.Standing{Member: "agent:helper", AcceptLoss: true}))(t)
	if last := w.store.Events()[len(w.store.Events())-1]; last.Code != event.SecretEnded || len(asked) != 3 {
		t.Errorf("after a removal: %s, asked of %v", last.Code, asked)
	}
}
