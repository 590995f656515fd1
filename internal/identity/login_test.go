package identity_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

const issuer = "https://id.example"

func (w *world) logIn(subject, name string, roles ...access.Role) (identity.LoggedIn, error) {
	w.t.Helper()
	return w.Logins.LogIn(w.t.Context(), identity.Login{Issuer: issuer, Subject: subject, Name: name, Roles: roles, Request: csr(w.t), Life: 12 * time.Hour})
}

func TestLogIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	n := len(w.store.Events())
	in := must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	w.journaled(n, event.MemberAdded, event.CertificateMade, event.LoggedIn)
	if in.Member.Principal != access.User("ann") || !in.Device.LoginUntil.Equal(in.Certificate.NotAfter) || in.Certificate.NotAfter.Sub(w.Now()) > 12*time.Hour {
		t.Errorf("logged in %+v", in)
	}
	caller := must.Get(w.Callers.Authenticate(in.Certificate.Chain))(t)
	if caller.Principal != access.User("ann") || caller.DeviceID != in.Device.ID {
		t.Errorf("the session is %+v", caller)
	}
	// The event describes the loss: local could decide alone before.
	var said struct{ Loss string }
	if err := json.Unmarshal(w.store.Events()[n+2].Payload, &said); err != nil || !strings.Contains(said.Loss, "user:local can then answer for their own calls no longer") {
		t.Errorf("the loss is %q, %v", said.Loss, err)
	}

	// The same person with another name and another role remains the same member.
	n = len(w.store.Events())
	again := must.Get(w.logIn("s1", "anna", access.RoleAuditor))(t)
	w.journaled(n, event.MemberChanged, event.CertificateMade, event.LoggedIn)
	if again.Member.Principal != access.User("ann") || !slices.Equal(again.Member.Roles, []access.Role{access.RoleAuditor}) {
		t.Errorf("the second time gives %+v", again.Member)
	}
	w.restart()
	third := must.Get(w.logIn("s1", "ann", access.RoleAuditor))(t)
	if third.Member.Principal != access.User("ann") {
		t.Errorf("after a restart: %+v", third.Member)
	}
}

// TestLoginCannotReplaceAMember: a login never becomes an existing member of another person.
func TestLoginCannotReplaceAMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.add(access.User("bob"), access.Principal{}, access.RoleDeveloper)
	must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	w.add(access.User("cyd"), access.Principal{}, access.RoleDeveloper)
	must.Get(w.Members.RemoveMember(t.Context(), identity.Daemon(), identity.Standing{Member: "cyd", AcceptLoss: true}))(t)
	for name, want := range map[string]string{
		"bob":   "the local member user:bob already exists",
		"local": "the local member user:local already exists",
		"ann":   "user:ann is another person at the identity provider",
		"cyd":   "a removed member had the name user:cyd",
	} {
		if _, err := w.logIn("s2", name, access.RoleOperator); reason.Of(err) != reason.LoginRefused || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Control: a login with a free name succeeds, and the same subject of another issuer is
	// another person.
	must.Get(w.logIn("s2", "dan", access.RoleOperator))(t)
	_, err := w.Logins.LogIn(t.Context(), identity.Login{Issuer: issuer + "/other", Subject: "s1", Name: "ann", Roles: []access.Role{access.RoleOperator}, Request: csr(t), Life: time.Hour})
	if reason.Of(err) != reason.LoginRefused {
		t.Errorf("the subject of another issuer: %v", err)
	}
}

func TestLoginOfInactiveMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	must.Get(w.Members.DisableMember(t.Context(), identity.Daemon(), identity.Standing{Member: "ann", AcceptLoss: true}))(t)
	if _, err := w.logIn("s1", "ann", access.RoleOperator); reason.Of(err) != reason.LoginRefused {
		t.Errorf("disabled: %v", err)
	}
	must.Get(w.Members.EnableMember(t.Context(), identity.Daemon(), identity.Standing{Member: "ann", AcceptLoss: true}))(t)
	must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	must.Get(w.Members.RemoveMember(t.Context(), identity.Daemon(), identity.Standing{Member: "ann", AcceptLoss: true}))(t)
	if _, err := w.logIn("s1", "ann", access.RoleOperator); reason.Of(err) != reason.LoginRefused {
		t.Errorf("removed: %v", err)
	}
}

// A session ends with its certificate and cannot be extended.
func TestSessionIsNotRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	in := must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	if _, err := w.Certificates.Renew(t.Context(), in.Device.ID, "", csr(t)); reason.Of(err) != reason.PermissionDenied || !strings.Contains(reason.Known(err, reason.Internal).NextStep(), "palyra login") {
		t.Errorf("renewing: %v", err)
	}
	w.pass(12*time.Hour + time.Second)
	if _, err := w.Callers.Authenticate(in.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("after its end: %v", err)
	}
	if _, err := w.Callers.AuthenticateExpired(in.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("for a renewal after its end: %v", err)
	}
	// Control: an ordinary device can renew.
	added := w.add(access.User("bob"), access.Principal{}, access.RoleDeveloper)
	w.pass(25 * time.Hour)
	must.Get(w.Callers.AuthenticateExpired(added.Certificate.Chain))(t)
}

// A logout ends the session, and reduces no other member's rights.
func TestLogOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local := w.start()
	var ended []string
	w.OpenWork.OnEnd(func(d identity.Device, _ *reason.Error) { ended = append(ended, d.ID) })
	in := must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	other := must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	n := len(w.store.Events())
	must.Do(t, w.Logins.LogOut(t.Context(), in.Device.ID))
	must.Do(t, w.Logins.LogOut(t.Context(), in.Device.ID))
	w.journaled(n, event.LoggedOut)
	if _, err := w.Callers.Authenticate(in.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("after logging out: %v", err)
	}
	if !slices.Equal(ended, []string{in.Device.ID}) {
		t.Errorf("what was open ended of %v", ended)
	}
	must.Get(w.Callers.Authenticate(other.Certificate.Chain))(t)
	must.Do(t, w.Logins.EndLogins(t.Context(), issuer, "s1", "no group"))
	if _, err := w.Callers.Authenticate(other.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("after all were ended: %v", err)
	}
	if m, _ := w.registry.Get(access.User("ann")); !m.Decides() {
		t.Error("who logged out is no longer one of those who answer approvals")
	}
	if err := w.Logins.LogOut(t.Context(), local.ID); reason.Of(err) != reason.NotFound {
		t.Errorf("logging a device out: %v", err)
	}
}

// TestSessionsAreBounded: the number of sessions is bounded, and old ones are removed.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first := must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	for range 10 {
		w.pass(time.Second)
		must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	}
	if _, err := w.Callers.Authenticate(first.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("the oldest of eleven sessions: %v", err)
	}
	if n := len(w.Directory.Devices()); n != 12 {
		t.Errorf("%d devices", n)
	}
	w.pass(31 * 24 * time.Hour)
	must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	if n := len(w.Directory.Devices()); n != 2 {
		t.Errorf("a month later there are %d devices", n)
	}
	w.restart()
	if n := len(w.Directory.Devices()); n != 2 {
		t.Errorf("after a restart there are %d devices", n)
	}
}

// TestLoginMemberHasNoCreator: a member who logs in is independent: the administrator of the host
// chose the provider, and no member created the account.
func TestLoginMemberHasNoCreator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	must.Get(w.logIn("s1", "ann", access.RoleOperator))(t)
	must.Get(w.logIn("s2", "bob", access.RoleOperator))(t)
	must.Get(w.logIn("s2", "bob", access.RoleAuditor))(t)
	independent := w.Directory.History().Controllers().Independence()
	local, ann, bob := access.User("local"), access.User("ann"), access.User("bob")
	if !independent.Independent(ann, bob) || !independent.Independent(local, ann) {
		t.Errorf("hands: %v", w.Directory.History().Controllers())
	}
	// Control: a local change gives control of the member to its author, and a login does not end
	// that control.
	must.Get(w.Members.UpdateMember(t.Context(), local, identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleDeveloper}, AcceptLoss: true}))(t)
	must.Get(w.logIn("s2", "bob", access.RoleOperator))(t)
	if w.Directory.History().Controllers().Independence().Independent(local, bob) {
		t.Error("a login freed a member from the hands that changed it")
	}
	// A session does not count as a device that the host added.
	if added := w.Notices.Added(ann); len(added) != 0 {
		t.Errorf("ann is told of %v", added)
	}
}

func TestLoginKeepsTheLastOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	must.Get(w.logIn("s1", "ann", access.RoleOwner))(t)
	must.Get(w.Members.DisableMember(t.Context(), identity.Daemon(), identity.Standing{Member: "local", AcceptLoss: true}))(t)
	if _, err := w.logIn("s1", "ann", access.RoleAuditor); reason.Of(err) != reason.LastOwner {
		t.Errorf("the last owner logs in as auditor: %v", err)
	}
	must.Get(w.logIn("s1", "ann", access.RoleOwner))(t)
}

// A login that cannot be recorded does not take effect.
func TestLoginThatIsNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.store.FailNext(reason.Errorf(reason.JournalUnavailable, "full"))
	if _, err := w.logIn("s1", "ann", access.RoleOperator); reason.Of(err) != reason.JournalUnavailable {
		t.Fatalf("%v", err)
	}
	if _, known := w.registry.Get(access.User("ann")); known || len(w.Directory.Devices()) != 1 {
		t.Error("a login that was not recorded left something")
	}
}

func TestProof(t *testing.T) {
	t.Parallel()
	k := key(t)
	proof := must.Get(identity.Prove(k, "login 1"))(t)
	if !identity.Proven(k.Public(), "login 1", proof) {
		t.Error("a proof is not one")
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil || !identity.Proven(ed.Public(), "x", must.Get(identity.Prove(ed, "x"))(t)) {
		t.Errorf("Ed25519: %v", err)
	}
	if identity.Proven(k.Public(), "login 2", proof) || identity.Proven(key(t).Public(), "login 1", proof) || identity.Proven(k.Public(), "login 1", nil) || identity.Proven(nil, "login 1", proof) {
		t.Error("a wrong proof is one")
	}
}
