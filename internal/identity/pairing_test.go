package identity_test

import (
	"encoding/pem"
	"slices"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// pairing returns a pairing of a device for a member, with a code of local that ann approved.
func (w *world) pairing(p access.Principal, change ...func(*identity.Pairing)) identity.Pairing {
	w.t.Helper()
	made := identity.Pairing{
		DeviceID: must.Get(identity.NewDeviceID(w.Now()))(w.t), Name: "laptop", Member: p, MadeBy: identity.Local(),
		ApprovedBy: []access.Principal{access.User("ann")}, Request: csr(w.t), Code: "k7qf3m2x", ApprovalID: "01APPROVAL", AcceptLoss: true,
	}
	for _, fn := range change {
		fn(&made)
	}
	return made
}

func fresh(roles ...access.Role) func(*identity.Pairing) {
	return func(p *identity.Pairing) { p.New, p.Roles = true, roles }
}

// TestPair: the device has the id and the name of the pairing. The journal records the creator
// and the approver of the code in the same transaction.
func TestPair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.add(access.User("ann"), access.Principal{}, access.RoleOwner)
	before := len(w.store.Events())
	p := w.pairing(access.User("bob"), fresh(access.RoleOperator))
	a := must.Get(w.Pairings.Pair(t.Context(), p))(t)
	w.journaled(before, event.MemberAdded, event.CertificateMade, event.DevicePaired)
	dev, _ := w.Directory.Device(p.DeviceID)
	if dev.Name != "laptop" || dev.Principal != access.User("bob") || dev.KeySHA256 != a.Certificate.KeySHA256 {
		t.Errorf("the device is %+v", dev)
	}
	if c, err := w.Callers.Authenticate(chainOf(a)); err != nil || c.DeviceID != p.DeviceID || c.Principal != access.User("bob") {
		t.Errorf("it authenticates as %+v: %v", c, err)
	}
	second := w.pairing(access.User("bob"), func(p *identity.Pairing) { p.Name = "no\nname" })
	must.Get(w.Pairings.Pair(t.Context(), second))(t)
	if dev, _ := w.Directory.Device(second.DeviceID); dev.Name != "bob" {
		t.Errorf("a device with a bad name is called %q", dev.Name)
	}
}

// TestPairedDevicesCount: the creator of the code, and the approver of the device, could
// control it. Both therefore control the member until another member confirms it. A member's
// own device that the member approved changes nothing.
func TestPairedDevicesCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	ann, bob, cyd := access.User("ann"), access.User("bob"), access.User("cyd")
	for _, p := range []access.Principal{ann, bob, cyd} {
		w.add(p, access.Principal{}, access.RoleOwner)
		must.Get(w.Confirmations.ConfirmMember(t.Context(), identity.Daemon(), p.String()))(t)
	}
	hands := func(of access.Principal) []access.Principal {
		var list []access.Principal
		for _, p := range []access.Principal{identity.Local(), ann, bob, cyd} {
			if p != of && w.Directory.History().Controlled(p)[of] {
				list = append(list, p)
			}
		}
		return list
	}
	if got := hands(bob); len(got) != 0 {
		t.Fatalf("before, bob is in the hands of %v", got)
	}
	must.Get(w.Pairings.Pair(t.Context(), w.pairing(bob)))(t)
	if got, want := hands(bob), []access.Principal{identity.Local(), ann}; !slices.Equal(got, want) {
		t.Errorf("bob is in the hands of %v, want %v", got, want)
	}
	must.Get(w.Confirmations.ConfirmMember(t.Context(), cyd, "bob"))(t)
	if got := hands(bob); len(got) != 0 {
		t.Errorf("confirmed by cyd, bob is in the hands of %v", got)
	}
	must.Get(w.Pairings.Pair(t.Context(), w.pairing(cyd, func(p *identity.Pairing) { p.MadeBy, p.ApprovedBy = cyd, []access.Principal{cyd} })))(t)
	if got := hands(cyd); len(got) != 0 {
		t.Errorf("with a second device of its own, cyd is in the hands of %v", got)
	}
}

// TestMayPair: a pairing that MayPair refuses is refused again when the device would be
// created.
func TestMayPair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dan := w.add(access.User("dan"), access.Principal{}, access.RoleDeveloper)
	admin := w.add(access.User("adm"), access.Principal{}, access.RoleAdmin)
	w.add(access.Agent("helper"), access.User("dan"), access.RoleAgent)
	by := func(p access.Principal) func(*identity.Pairing) {
		return func(made *identity.Pairing) { made.MadeBy = p }
	}
	for name, row := range map[string]struct {
		p    identity.Pairing
		want reason.Code
	}{
		"a member that is not there":     {w.pairing(access.User("eve")), reason.NotFound},
		"a new member that is there":     {w.pairing(access.User("dan"), fresh(access.RoleDeveloper)), reason.AlreadyExists},
		"a new member without a role":    {w.pairing(access.User("eve"), fresh()), reason.InvalidInput},
		"a role that is none":            {w.pairing(access.User("eve"), fresh("chief")), reason.InvalidInput},
		"an agent without an owner":      {w.pairing(access.Agent("eve"), fresh(access.RoleAgent)), reason.InvalidInput},
		"an owner by an admin":           {w.pairing(access.User("eve"), fresh(access.RoleOwner), by(admin.Member.Principal)), reason.PermissionDenied},
		"the owner's device by an admin": {w.pairing(identity.Local(), by(admin.Member.Principal)), reason.PermissionDenied},
		"another's by a developer":       {w.pairing(admin.Member.Principal, by(dan.Member.Principal)), reason.PermissionDenied},
		"its agent's by a developer":     {w.pairing(access.Agent("helper"), by(dan.Member.Principal)), reason.PermissionDenied},
		"by an unknown member":           {w.pairing(access.User("dan"), by(access.User("eve"))), reason.PermissionDenied},
		"one's own by a developer":       {w.pairing(access.User("dan"), by(dan.Member.Principal)), ""},
		"another's by an admin":          {w.pairing(access.User("dan"), by(admin.Member.Principal)), ""},
	} {
		if err := w.Pairings.MayPair(row.p); reason.Of(err) != row.want {
			t.Errorf("%s: MayPair says %v, want %s", name, err, row.want)
		}
		if _, err := w.Pairings.Pair(t.Context(), row.p); reason.Of(err) != row.want {
			t.Errorf("%s: Pair says %v, want %s", name, err, row.want)
		}
	}
	second := w.pairing(access.User("two"), fresh(access.RoleOperator), func(p *identity.Pairing) { p.AcceptLoss = false })
	lone := newWorld(t)
	lone.start()
	if err := lone.Pairings.MayPair(second); reason.Of(err) != reason.LossNotAccepted {
		t.Errorf("the second who decides: %v", err)
	}
}

// TestPairRequiresAnApproval: without the id of an approval, or without an approver, no device
// is created. An id is valid for one device.
func TestPairRequiresAnApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before := len(w.Directory.Devices())
	for _, change := range []func(*identity.Pairing){
		func(p *identity.Pairing) { p.ApprovalID = "" }, func(p *identity.Pairing) { p.ApprovedBy = nil }, func(p *identity.Pairing) { p.DeviceID = "" },
	} {
		if _, err := w.Pairings.Pair(t.Context(), w.pairing(identity.Local(), change)); reason.Of(err) != reason.PermissionDenied {
			t.Errorf("a device that nobody allowed: %v", err)
		}
	}
	if len(w.Directory.Devices()) != before {
		t.Error("there are more devices")
	}
	p := w.pairing(identity.Local())
	must.Get(w.Pairings.Pair(t.Context(), p))(t)
	p.Request = csr(t)
	if _, err := w.Pairings.Pair(t.Context(), p); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("a second device of one id: %v", err)
	}
}

// TestPairAgain: for an hour, only the key of a paired device can collect its certificate
// again.
func TestPairAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	p := w.pairing(identity.Local())
	a := must.Get(w.Pairings.Pair(t.Context(), p))(t)
	w.restart()
	key := a.Certificate.KeySHA256
	request := der(t, p.Request)
	dev, cert, err := w.Pairings.PairAgain(t.Context(), key, request, time.Hour)
	if err != nil || dev.ID != p.DeviceID || cert.KeySHA256 != key {
		t.Errorf("again: %+v, %v", dev, err)
	}
	if _, _, err := w.Pairings.PairAgain(t.Context(), key, der(t, csr(t)), time.Hour); reason.Of(err) != reason.InvalidInput {
		t.Errorf("with a request of another key: %v", err)
	}
	w.pass(time.Hour + time.Second)
	if _, _, err := w.Pairings.PairAgain(t.Context(), key, request, time.Hour); reason.Of(err) != reason.NotFound {
		t.Errorf("after an hour: %v", err)
	}
	second := must.Get(w.Pairings.Pair(t.Context(), w.pairing(identity.Local(), func(q *identity.Pairing) { q.Request = p.Request })))(t)
	w.revoke(second.Device.ID)
	w.revoke(p.DeviceID)
	if _, _, err := w.Pairings.PairAgain(t.Context(), key, request, 24*time.Hour); reason.Of(err) != reason.NotFound {
		t.Errorf("of a revoked device: %v", err)
	}
}

// der returns the DER form of a PEM certificate request.
func der(t *testing.T, text []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(text)
	return block.Bytes
}
