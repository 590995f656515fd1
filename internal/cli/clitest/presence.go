package clitest

import (
	"bytes"
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
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
		return identity.PresenceKey{}, reason.Errorf(reason.AlreadyExists, "the device has another presence key")
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
	return identity.PresenceKey{}, reason.Errorf(reason.PermissionDenied, "only the gateway's host may reset a presence key")
}

func (p presenceKeys) ConfirmOnHost(_ context.Context, names []string) (members []access.Principal, err error) {
	for _, name := range names {
		members = append(members, access.User(name))
	}
	return members, nil
}

// servePresence starts the real service of presence keys.
func servePresence(f *Gateway) {
	f.PresenceKeys = map[string]identity.PresenceKey{}
	p := must.Get(presenceproof.New(certificatePEM(f.w.CA.Cert), presenceKeys{f}, passkeys{f: f}, passkeyVotes{},
		func() bool { return true }, func(context.Context) access.Caller { return bundleCaller }))(f.w.T)
	f.presence = p
	serve(f, p.ChallengePresence)
	serve(f, p.RegisterPresenceKey)
	serve(f, p.ConfirmPresenceKey)
	serve(f, p.ResetPresenceKey)
	serve(f, p.ConfirmMembers)
	serve(f, p.BeginPasskeyEnrolment)
	serve(f, p.FinishPasskeyEnrolment)
	serve(f, p.ConfirmPasskey)
	serve(f, p.RemovePasskey)
	serve(f, p.ListPasskeys)
	serve(f, p.ChallengePasskey)
}

var bundleCaller = access.Caller{Principal: access.User("ada"), OnBehalfOf: access.User("ada"), DeviceID: BundleDevice, Paired: true}

// proven refuses a vote with an invalid proof of presence, and reports whether the vote has a
// proof.
func (f *Gateway) proven(ctx context.Context, req *palyrav1.DecideApprovalRequest) (bool, error) {
	c, _, err := f.presence.Prove(ctx, bundleCaller, req)
	return c.Present, err
}

// passkeys are the passkeys of the caller, for a console at palyra-test.localhost.
type passkeys struct {
	keeper
	f *Gateway
}

type keeper = presenceproof.Passkeys

func (passkeys) Proving() []access.Principal                   { return nil }
func (p passkeys) Passkeys(access.Principal) []passkey.Passkey { return p.f.Passkeys }

func (p passkeys) Lost() (list []passkey.Passkey) {
	for _, k := range p.f.Passkeys {
		if k.LostAt("palyra-test.localhost") {
			list = append(list, k)
		}
	}
	return list
}

// passkeyVotes are the fake's votes.
type passkeyVotes struct{}

func (passkeyVotes) Version(context.Context, string) (int64, error) { return 1, nil }

func (passkeyVotes) Said(access.Caller, string, *palyrav1.DecideApprovalRequest, *passkey.Assertion) (passkey.Vote, error) {
	return passkey.Vote{}, nil
}

func (passkeyVotes) MayRead(access.Caller) error { return nil }
