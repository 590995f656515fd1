// Package presenceproof implements the PresenceService: presence keys of devices, passkeys of
// members, and the proofs that make a vote count as present. It also receives signed votes that
// webhook receivers forward. Only the member's proof in the vote counts; the endpoint's secret
// grants no authority. Package presence defines the signed statements.
package presenceproof

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/presence"
)

// Devices stores presence keys.
type Devices interface {
	Device(id string) (identity.Device, bool)
	RegisterPresence(ctx context.Context, deviceID string, public, was []byte) (identity.PresenceKey, error)
	ConfirmPresence(ctx context.Context, actor access.Principal, deviceID, sha256 string) (identity.PresenceKey, error)
	ResetPresence(ctx context.Context, actor access.Principal, deviceID string) (identity.PresenceKey, error)
	ConfirmOnHost(ctx context.Context, names []string) ([]access.Principal, error)
}

// Service is the PresenceService.
type Service struct {
	// gateway is the result of Gateway for this gateway.
	gateway string
	devices Devices
	book    *presence.Book
	// passkeys stores the members' passkeys. votes has the approvals that members vote on.
	passkeys Passkeys
	votes    Votes
	// ownerRunsAgents reports whether agents may run as palyrad's own user.
	ownerRunsAgents func() bool
	// caller returns the caller of a request.
	caller func(context.Context) access.Caller
}

// New returns the service of a gateway whose root certificate is root, in PEM.
func New(root string, devices Devices, passkeys Passkeys, votes Votes, ownerRunsAgents func() bool, caller func(context.Context) access.Caller) (*Service, error) {
	chain, err := ca.ParseChain([]byte(root))
	if err != nil {
		return nil, fmt.Errorf("reading the root for proofs of presence: %w", err)
	}
	return &Service{
		gateway: Gateway(chain[0]), devices: devices, book: presence.NewBook(time.Now), passkeys: passkeys, votes: votes, ownerRunsAgents: ownerRunsAgents, caller: caller,
	}, nil
}

// Gateway identifies a gateway in proofs for both signer and verifier: the digest of its root
// certificate.
func Gateway(root *x509.Certificate) string { return canonical.Digest(root.Raw) }

// ChallengePresence returns a challenge for one proof of the caller's device.
func (s *Service) ChallengePresence(ctx context.Context, req *palyrav1.ChallengePresenceRequest) (*palyrav1.ChallengePresenceResponse, error) {
	dev, err := s.device(s.caller(ctx))
	if err != nil {
		return nil, err
	}
	if req.GetApprovalId() != "" && !dev.Presence.Proves() {
		return nil, unproven(dev)
	}
	c, err := s.book.Challenge(dev.ID, req.GetApprovalId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ChallengePresenceResponse{Nonce: c.Nonce[:], ExpiresAt: timestamppb.New(c.Until), KeySha256: dev.Presence.SHA256()}, nil
}

// RegisterPresenceKey registers the presence key of the caller's device.
func (s *Service) RegisterPresenceKey(ctx context.Context, req *palyrav1.RegisterPresenceKeyRequest) (*palyrav1.RegisterPresenceKeyResponse, error) {
	dev, err := s.device(s.caller(ctx))
	if err != nil {
		return nil, err
	}
	signed := presence.Enrolment{Gateway: s.gateway, Device: dev.ID, PublicKey: req.GetPublicKey(), Nonce: req.GetProof().GetNonce()}
	if err := s.book.Redeem(dev.ID, "", signed.Nonce); err != nil {
		return nil, err
	}
	if err := presence.Verify(signed.PublicKey, signed, req.GetProof().GetSignature()); err != nil {
		return nil, err
	}
	was := dev.Presence.Public
	if len(was) > 0 {
		if err := presence.Verify(was, signed, req.GetPreviousSignature()); err != nil {
			return nil, reason.Errorf(reason.PresenceNotProven, "replacing the presence key of device %s: the request is not signed by the current key", dev.ID).
				WithRemedy("If it is lost, run `palyrad presence reset %s` on the gateway's host.", dev.ID)
		}
	}
	key, err := s.devices.RegisterPresence(ctx, dev.ID, signed.PublicKey, was)
	if err != nil {
		return nil, err
	}
	return &palyrav1.RegisterPresenceKeyResponse{Key: KeyMessage(key)}, nil
}

// ConfirmPresenceKey activates a presence key. It requires a caller who proves presence, or the
// gateway's host.
func (s *Service) ConfirmPresenceKey(ctx context.Context, req *palyrav1.ConfirmPresenceKeyRequest) (*palyrav1.ConfirmPresenceKeyResponse, error) {
	caller := s.caller(ctx)
	if !host(caller) {
		if err := s.vouches(caller, req); err != nil {
			return nil, err
		}
	}
	key, err := s.devices.ConfirmPresence(ctx, caller.Principal, req.GetDeviceId(), req.GetKeySha256())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConfirmPresenceKeyResponse{Key: KeyMessage(key)}, nil
}

// vouches verifies that a present caller confirms exactly this key.
func (s *Service) vouches(caller access.Caller, req *palyrav1.ConfirmPresenceKeyRequest) error {
	dev, err := s.device(caller)
	if err != nil {
		return err
	}
	return s.proves(dev, "", req.GetProof(), presence.Confirmation{
		Gateway: s.gateway, By: dev.ID, Device: req.GetDeviceId(), KeySHA256: req.GetKeySha256(), Nonce: req.GetProof().GetNonce(),
	})
}

// ResetPresenceKey removes the presence key of a device.
func (s *Service) ResetPresenceKey(ctx context.Context, req *palyrav1.ResetPresenceKeyRequest) (*palyrav1.ResetPresenceKeyResponse, error) {
	caller := s.caller(ctx)
	// A copy of the host's own credential contains its certificate, and must not be enough to
	// remove the key that the copy lacks. The socket authenticates the uid.
	if !host(caller) {
		return nil, reason.Errorf(reason.PermissionDenied, "removing a presence key is allowed only on the gateway's host").
			WithRemedy("Run `palyrad presence reset %s` there.", req.GetDeviceId())
	}
	was, err := s.devices.ResetPresence(ctx, caller.Principal, req.GetDeviceId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ResetPresenceKeyResponse{Was: KeyMessage(was)}, nil
}

// Prove returns the caller as its vote counts: present if the vote carries a valid proof. It also
// returns the passkey's proof, if any, which is stored with the vote. An invalid proof is an error,
// and the vote must not be cast.
func (s *Service) Prove(ctx context.Context, caller access.Caller, vote *palyrav1.DecideApprovalRequest) (_ access.Caller, byPasskey *passkey.Assertion, err error) {
	caller.Present = false
	switch {
	case vote.GetPresence() != nil && vote.GetPasskey() != nil:
		return caller, nil, reason.Errorf(reason.InvalidInput, "a vote must not carry two proofs of presence")
	case vote.GetPasskey() != nil:
		byPasskey, err = s.provePasskey(ctx, caller, vote)
	case vote.GetPresence() != nil:
		err = s.provePresence(caller, vote)
	default:
		return caller, nil, nil
	}
	if err != nil {
		return caller, nil, err
	}
	caller.Present = true
	return caller, byPasskey, nil
}

// provePresence verifies a vote that is signed by its device's presence key.
func (s *Service) provePresence(caller access.Caller, vote *palyrav1.DecideApprovalRequest) error {
	dev, err := s.device(caller)
	if err != nil {
		return err
	}
	return s.proves(dev, vote.GetApprovalId(), vote.GetPresence(), Statement(s.gateway, dev.ID, vote))
}

// proves verifies a proof against the current presence key of a device.
func (s *Service) proves(dev identity.Device, approval string, proof *palyrav1.PresenceProof, statement presence.Statement) error {
	if !dev.Presence.Proves() {
		return unproven(dev)
	}
	if err := s.book.Redeem(dev.ID, approval, proof.GetNonce()); err != nil {
		return err
	}
	return presence.Verify(dev.Presence.Public, statement, proof.GetSignature())
}

// host reports whether a caller has the authority of the gateway's host: the local operator's
// socket itself. A console session that was opened over the socket does not count, because it can
// be stolen.
func host(c access.Caller) bool {
	return c.Transport == access.TransportSocket && c.Surface != access.SurfaceConsole
}

// device returns the device of a user that authenticated with its certificate. No other
// credential can prove presence: the socket presents no key, a token can be copied, and a login
// session has no lasting key.
func (s *Service) device(c access.Caller) (identity.Device, error) {
	dev, known := s.devices.Device(c.DeviceID)
	switch {
	case !c.Paired || c.Token != nil || c.Transport != "" || !known || dev.Revoked():
		return dev, reason.Errorf(reason.PresenceNotProven, "proving presence requires a connection with the certificate of a device").
			WithRemedy("Use the credential bundle of a device, not of a token, and omit --socket.")
	case dev.Session():
		return dev, reason.Errorf(reason.PresenceNotProven, "a login session has no presence key").
			WithRemedy("Use the credential bundle of a device: `palyrad operator bundle NAME` on the gateway's host, or `palyra pair`.")
	case c.Principal.Kind != access.KindUser:
		return dev, reason.Errorf(reason.PermissionDenied, "%s is not a user and cannot prove presence", c.Principal)
	}
	return dev, nil
}

// unproven returns the reason why a device cannot prove presence.
func unproven(dev identity.Device) error {
	if dev.Presence.Waits {
		return reason.Errorf(reason.PresenceNotProven, "the presence key of device %s is not confirmed", dev.ID).
			WithRemedy("Ask a user with a presence key to run `palyra key presence --confirm %s`, or run `palyrad presence confirm %s` on the gateway's host.", dev.ID, dev.ID)
	}
	return reason.Errorf(reason.PresenceNotProven, "device %s has no presence key", dev.ID).
		WithRemedy("Create one: `palyra key presence --passphrase`. Then vote with --present.")
}

// Wanted adds the next step to the error of a vote for which policy requires presence.
func (s *Service) Wanted(caller access.Caller, err error) error {
	if reason.Of(err) != reason.PresenceNotProven {
		return err
	}
	if slices.Contains(s.passkeys.Proving(), caller.Principal) {
		return reason.Errorf(reason.PresenceNotProven, "%w", err).WithRemedy("Answer in the console with your passkey: `palyra console`.")
	}
	dev, wrong := s.device(caller)
	if wrong != nil {
		return wrong
	}
	if !dev.Presence.Proves() {
		return unproven(dev)
	}
	return err
}

// Statement returns the statement that a presence proof signs for a vote. Signer and verifier both
// use it.
func Statement(gateway, device string, v *palyrav1.DecideApprovalRequest) presence.Vote {
	return presence.Vote{
		Gateway: gateway, Device: device, Approval: v.GetApprovalId(), CallDigest: v.GetShownDigest(), Allow: v.GetAllow(),
		Scope: v.GetScope().String(), Match: v.GetMatch().String(), TTL: v.GetTtl().AsDuration(), Uses: v.GetUses(),
		Reason: v.GetReason(), Surface: v.GetSurface(), Nonce: v.GetPresence().GetNonce(),
	}
}

// KeyMessage converts a presence key to its API message; nil for none.
func KeyMessage(k identity.PresenceKey) *palyrav1.PresenceKey {
	if len(k.Public) == 0 {
		return nil
	}
	return &palyrav1.PresenceKey{Sha256: k.SHA256(), RegisteredAt: timestamppb.New(k.At), Waits: k.Waits}
}
