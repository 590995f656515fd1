package clitest

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/api/presenceproof"
)

// BundleDevice is the device of the credential bundle.
const BundleDevice = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// presenceKeys are the presence keys of a gateway with one person: the key of the bundle's device,
// and keys that wait for confirmation.
type presenceKeys struct{ f *Gateway }

func (p presenceKeys) Device(id string) (identity.Device, bool) {
	return identity.Device{ID: id, Principal: access.User("ada"), Presence: p.f.PresenceKeys[id]}, true
}

func (p presenceKeys) RegisterPresence(_ context.Context, id string, public, was []byte) (identity.PresenceKey, error) {
	p.f.Mu.Lock()
	defer p.f.Mu.Unlock()
	if !bytes.Equal(p.f.PresenceKeys[id].Public, was) {
		return identity.PresenceKey{}, GatewayError(connect.CodeAlreadyExists, reason.AlreadyExists, "the device has another presence key", nil)
	}
	p.f.PresenceKeys[id] = identity.PresenceKey{Public: public, At: Now}
	return p.f.PresenceKeys[id], nil
}

func (p presenceKeys) ConfirmPresence(_ context.Context, _ access.Principal, id, _ string) (identity.PresenceKey, error) {
	p.f.Mu.Lock()
	defer p.f.Mu.Unlock()
	k := p.f.PresenceKeys[id]
	k.Waits = false
	p.f.PresenceKeys[id] = k
	return k, nil
}

func (p presenceKeys) ResetPresence(context.Context, access.Principal, string) (identity.PresenceKey, error) {
	return identity.PresenceKey{}, GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "only the gateway's host may reset a presence key", nil)
}

func (p presenceKeys) ConfirmOnHost(_ context.Context, names []string) (members []access.Principal, err error) {
	for _, name := range names {
		members = append(members, access.User(name))
	}
	return members, nil
}

// openPresence starts the real service of presence keys.
func (f *Gateway) openPresence() (err error) {
	f.PresenceKeys = map[string]identity.PresenceKey{}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.root.Cert.Raw})
	f.presence, err = presenceproof.New(string(root), presenceKeys{f}, passkeys{f: f}, passkeyVotes{}, func() bool { return true }, func(context.Context) access.Caller { return bundleCaller })
	return err
}

// asGateway converts a reason.Error to the form of the gateway; it returns other errors unchanged.
func asGateway(err error) error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return err
	}
	return GatewayError(connect.CodePermissionDenied, known.Code, known.Message, map[string]string{"remedy": known.NextStep()})
}

// roomErrors converts the errors of the services behind a fake service.
var roomErrors = connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		return res, asGateway(err)
	}
})

var bundleCaller = access.Caller{Principal: access.User("ada"), OnBehalfOf: access.User("ada"), DeviceID: BundleDevice, Paired: true}

// proven refuses a vote with an invalid proof of presence, and reports whether the vote has a
// proof.
func (f *Gateway) proven(ctx context.Context, req *palyrav1.DecideApprovalRequest) (bool, error) {
	c, _, err := f.presence.Prove(ctx, bundleCaller, req)
	if err != nil {
		return false, asGateway(err)
	}
	return c.Present, nil
}
