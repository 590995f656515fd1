package presenceproof

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/presence"
)

// one is a gateway with one device.
type one struct {
	Devices
	dev identity.Device
}

func (o one) Device(id string) (identity.Device, bool) { return o.dev, id == o.dev.ID }

// TestPresentCallers: a valid proof makes only the caller of the device's certificate present,
// regardless of how the caller connected. Control: a certificate.
func TestPresentCallers(t *testing.T) {
	t.Parallel()
	key := must.Get(presence.NewKey())(t)
	public := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t)
	for name, c := range map[string]struct {
		change func(*access.Caller, *identity.Device)
		good   bool
	}{
		"a certificate": {func(*access.Caller, *identity.Device) {}, true},
		"a token":       {func(c *access.Caller, _ *identity.Device) { c.Token = &access.TokenBounds{} }, false},
		"the socket":    {func(c *access.Caller, _ *identity.Device) { c.Transport = access.TransportSocket }, false},
		"no key":        {func(c *access.Caller, _ *identity.Device) { c.Paired = false }, false},
		"a login":       {func(_ *access.Caller, d *identity.Device) { d.LoginUntil = time.Now().Add(time.Hour) }, false},
		"revoked":       {func(_ *access.Caller, d *identity.Device) { d.RevokedAt = time.Now() }, false},
		"an agent":      {func(c *access.Caller, _ *identity.Device) { c.Principal = access.Agent("claude") }, false},
	} {
		dev := identity.Device{ID: "01DEVICE000000000000000000", Presence: identity.PresenceKey{Public: public}}
		caller := access.Caller{Principal: access.User("ada"), DeviceID: dev.ID, Paired: true}
		c.change(&caller, &dev)
		s := &Service{devices: one{dev: dev}, book: presence.NewBook(time.Now), caller: func(context.Context) access.Caller { return caller }}
		nonce := must.Get(s.book.Challenge(dev.ID, "01APPROVAL0000000000000000"))(t).Nonce
		vote := &palyrav1.DecideApprovalRequest{ApprovalId: "01APPROVAL0000000000000000", Allow: true, Presence: &palyrav1.PresenceProof{Nonce: nonce[:]}}
		vote.Presence.Signature = must.Get(presence.Sign(key, Statement("", dev.ID, vote)))(t)
		got, _, err := s.Prove(t.Context(), caller, vote)
		if got.Present != c.good || (err == nil) != c.good || err != nil && reason.Of(err) == reason.Internal {
			t.Errorf("%s: present %v, %v", name, got.Present, err)
		}
	}
}
