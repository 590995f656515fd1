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

// presenceKeys are those of a gateway with one person: the bundle's device, and others
// whose keys wait.
type presenceKeys struct{ f *Gateway }

func (p presenceKeys) Device(id string) (identity.Device, bool) {
	return identity.Device{ID: id, Principal: access.User("ada"), Presence: p.f.PresenceKeys[id]}, true
}

func (p presenceKeys) RegisterPresence(_ context.Context, id string, public, was []byte) (identity.PresenceKey, error) {
	p.f.Mu.Lock()
	defer p.f.Mu.Unlock()
	if !bytes.Equal(p.f.PresenceKeys[id].Public, was) {
		return identity.PresenceKey{}, GatewayError(connect.CodeAlreadyExists, reason.AlreadyExists, "it has another presence key", nil)
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
	return identity.PresenceKey{}, GatewayError(connect.CodePermissionDenied, reason.PermissionDenied, "it takes the gateway's host", nil)
}

// openPresence makes the service of presence keys, which is the gateway's own.
func (f *Gateway) openPresence() (err error) {
	f.PresenceKeys = map[string]identity.PresenceKey{}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.root.Cert.Raw})
	f.presence, err = presenceproof.New(string(root), presenceKeys{f}, passkeys{f: f}, passkeyVotes{}, func(context.Context) access.Caller { return bundleCaller })
	return err
}

// asGateway is an error of a room as the gateway sends it; others stay.
func asGateway(err error) error {
	var known *reason.Error
	if !errors.As(err, &known) {
		return err
	}
	return GatewayError(connect.CodePermissionDenied, known.Code, known.Message, map[string]string{"remedy": known.NextStep()})
}

// roomErrors sends the errors of rooms behind a fake service.
var roomErrors = connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		return res, asGateway(err)
	}
})

var bundleCaller = access.Caller{Principal: access.User("ada"), OnBehalfOf: access.User("ada"), DeviceID: BundleDevice, Paired: true}

// proven refuses a vote whose proof of presence is not good, and says whether it has one.
func (f *Gateway) proven(ctx context.Context, req *palyrav1.DecideApprovalRequest) (bool, error) {
	c, _, err := f.presence.Prove(ctx, bundleCaller, req)
	if err != nil {
		return false, asGateway(err)
	}
	return c.Present, nil
}
