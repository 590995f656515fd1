package identity_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
)

// A change that ends a member's ability to answer approvals is refused until it is accepted;
// the error names the loss and how to revert it. A change without such a loss needs no
// acceptance.
func TestLossIsNamedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local := w.start()
	admit := func(name string, kind access.Kind, owner access.Principal, role access.Role, accept bool) (identity.Admission, error) {
		return w.Members.AddMember(t.Context(), identity.Daemon(), name, kind, []access.Role{role}, owner, csr(t), accept)
	}
	for name, role := range map[string]access.Role{"ann": access.RoleAuditor, "dev": access.RoleDeveloper, "sec": "security"} {
		must.Get(admit(name, access.KindUser, access.Principal{}, role, false))(t)
	}
	must.Get(admit("bot", access.KindAgent, identity.Local(), access.RoleAgent, false))(t)

	before := len(w.store.Events())
	_, err := admit("bob", access.KindUser, access.Principal{}, access.RoleOperator, false)
	wantLoss(t, err, "user:local can then answer for their own calls no longer: user:bob has to", "palyra members disable user:bob")
	w.journaled(before)
	bob := must.Get(admit("bob", access.KindUser, access.Principal{}, access.RoleOperator, true))(t)
	carol := must.Get(admit("carol", access.KindUser, access.Principal{}, access.RoleOperator, false))(t) // two exist already

	revoke := func(d identity.Device, accept bool) error {
		_, err := w.Devices.Revoke(t.Context(), identity.Local(), d.ID, "lost", accept)
		return err
	}
	wantLoss(t, revoke(carol.Device, false), "user:carol can then answer no approval any more", "palyrad operator bundle carol")
	if d, _ := w.Directory.Device(carol.Device.ID); d.Revoked() {
		t.Fatal("a revocation that nobody accepted was made")
	}
	must.Do(t, revoke(carol.Device, true))
	wantLoss(t, revoke(bob.Device, false), "user:bob can then answer no approval any more", "user:local then answers for their own calls")
	must.Do(t, revoke(bob.Device, true))
	wantLoss(t, revoke(local, false), "no member is left who can answer approvals", "palyrad operator bundle local")
}

// TestMembersWithoutDeviceAreReported: a member without a device is reported as such wherever
// approvers are listed, also after member changes and a restart.
func TestMembersWithoutDeviceAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	decides := func() bool {
		m, _ := w.registry.Get(bob.Member.Principal)
		return m.Decides()
	}
	if !decides() {
		t.Fatal("bob has a device and does not decide")
	}
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), bob.Device.ID, "lost", true))(t)
	w.registry.Put(bob.Member)
	if decides() {
		t.Error("bob decides without a device, once a member is put")
	}
	w.restart()
	if decides() {
		t.Error("bob decides without a device after a restart")
	}
	must.Do(t, w.registry.Load(t.Context()))
	if decides() {
		t.Error("bob decides without a device once the members are loaded again")
	}
	must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t), AcceptLoss: true}))(t)
	if !decides() {
		t.Error("bob has a device again and does not decide")
	}
}

func TestLostCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	local := w.start()
	alice := w.add(access.User("alice"), access.Principal{}, access.RoleOwner)
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	carol := w.add(access.User("carol"), access.Principal{}, access.RoleOperator)
	helper := w.add(access.Agent("helper"), access.User("bob"), access.RoleAgent)
	var ended []string
	w.OpenWork.OnEnd(func(d identity.Device, _ *reason.Error) { ended = append(ended, d.ID) })

	// An additional device does not revoke the old one, unless requested.
	n := len(w.store.Events())
	kept := must.Get(w.Devices.AddDevice(t.Context(), identity.Local(), local.ID, identity.Recovery{Member: "bob", Request: csr(t)}))(t)
	w.journaled(n, event.CertificateMade, event.DeviceAdded)
	if d, _ := w.Directory.Device(bob.Device.ID); d.Revoked() || len(kept.Revoked) != 0 {
		t.Errorf("the old device was revoked: %+v", d)
	}
	n = len(w.store.Events())
	only := must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "user:bob", Request: csr(t), RevokeOld: true}))(t)
	w.journaled(n, event.CertificateMade, event.DeviceRevoked, event.DeviceRevoked, event.DeviceAdded)
	if len(only.Revoked) != 2 || len(ended) != 2 {
		t.Errorf("revoked %v, ended %v", only.Revoked, ended)
	}
	for _, id := range []string{bob.Device.ID, kept.Device.ID} {
		if d, _ := w.Directory.Device(id); !d.Revoked() || !strings.Contains(d.RevokeReason, only.Device.ID) {
			t.Errorf("%+v", d)
		}
	}
	caller, err := w.Callers.Authenticate(only.Certificate.Chain)
	if err != nil || caller.Principal != access.User("bob") {
		t.Errorf("the new device is %+v, %v", caller, err)
	}
	agent := must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "helper", Request: csr(t)}))(t)

	// Only the member and the owners are notified, for seven days.
	notices := func(p access.Principal) int { return len(w.Notices.Added(p)) }
	for p, want := range map[access.Principal]int{
		identity.Local(): 3, access.User("alice"): 3, access.User("bob"): 3, access.Agent("helper"): 1, access.User("carol"): 0, access.User("nobody"): 0,
	} {
		if got := notices(p); got != want {
			t.Errorf("%s has notices of %d devices, want %d", p, got, want)
		}
	}
	w.pass(7*24*time.Hour + time.Second)
	if notices(access.User("bob")) != 0 || notices(identity.Local()) != 0 {
		t.Error("the notices last longer than seven days")
	}

	// Only the gateway's host may do this.
	for by, device := range map[access.Principal]string{
		access.User("alice"): alice.Device.ID, access.User("carol"): carol.Device.ID, access.Agent("helper"): agent.Device.ID, access.User("bob"): only.Device.ID,
	} {
		_, err := w.Devices.AddDevice(t.Context(), by, device, identity.Recovery{Member: "bob", Request: csr(t)})
		reasontest.Want(t, "from the device of "+by.String(), err, reason.PermissionDenied)
	}
	for name, r := range map[string]struct {
		member string
		want   reason.Code
	}{"unknown": {"mallory", reason.NotFound}, "no principal": {"person:bob", reason.InvalidInput}} {
		_, err := w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: r.member, Request: csr(t)})
		reasontest.Want(t, name, err, r.want)
	}
	_ = helper
}

// TestLossOfADeviceThatComesBack: a new device for a member without one makes that member a
// second approver again. The requester is warned before.
func TestLossOfADeviceThatComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), bob.Device.ID, "lost", true))(t)
	_, err := w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t)})
	wantLoss(t, err, "user:local can then answer for their own calls no longer: user:bob has to")
	must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t), AcceptLoss: true}))(t)
	// If there are already two approvers, another device causes no loss.
	must.Get(w.Devices.AddDevice(t.Context(), identity.Daemon(), "", identity.Recovery{Member: "bob", Request: csr(t)}))(t)
}

func wantLoss(t *testing.T, err error, says ...string) {
	t.Helper()
	reasontest.Want(t, "the loss", err, reason.LossNotAccepted)
	for _, text := range says {
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}
