// Package presenceproof is the PresenceService: presence keys of devices and passkeys of
// members, and the proofs by which votes count as present. It also takes votes that receivers
// of webhooks bring: the proof of the member in each vote counts, and the secret of the
// endpoint decides nothing. Package presence knows what a proof says.
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

// Devices keeps presence keys.
type Devices interface {
	Device(id string) (identity.Device, bool)
	RegisterPresence(ctx context.Context, deviceID string, public, was []byte) (identity.PresenceKey, error)
	ConfirmPresence(ctx context.Context, actor access.Principal, deviceID, sha256 string) (identity.PresenceKey, error)
	ResetPresence(ctx context.Context, actor access.Principal, deviceID string) (identity.PresenceKey, error)
}

// Service is the PresenceService.
type Service struct {
	// gateway is what Gateway says of it.
	gateway string
	devices Devices
	book    *presence.Book
	// passkeys are those of members, votes what they sign for.
	passkeys Passkeys
	votes    Votes
	// caller is who asks.
	caller func(context.Context) access.Caller
}

// New makes the service of a gateway, whose root certificate is PEM.
func New(root string, devices Devices, passkeys Passkeys, votes Votes, caller func(context.Context) access.Caller) (*Service, error) {
	chain, err := ca.ParseChain([]byte(root))
	if err != nil {
		return nil, fmt.Errorf("reading the root for proofs of presence: %w", err)
	}
	return &Service{
		gateway: Gateway(chain[0]), devices: devices, book: presence.NewBook(time.Now), passkeys: passkeys, votes: votes, caller: caller,
	}, nil
}

// Gateway names a gateway in proofs, at both of their ends: the digest of its root
// certificate.
func Gateway(root *x509.Certificate) string { return canonical.Digest(root.Raw) }

// ChallengePresence gives the caller's device a number for one proof.
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

// RegisterPresenceKey gives the caller's device its presence key.
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
			return nil, reason.Errorf(reason.PresenceNotProven, "device %s has a presence key, and that did not sign for another", dev.ID).
				WithRemedy("If it is lost, run `palyrad presence reset %s` on the gateway's host.", dev.ID)
		}
	}
	key, err := s.devices.RegisterPresence(ctx, dev.ID, signed.PublicKey, was)
	if err != nil {
		return nil, err
	}
	return &palyrav1.RegisterPresenceKeyResponse{Key: KeyMessage(key)}, nil
}

// ConfirmPresenceKey makes a presence key count: by the word of somebody who proves to
// be present, or of the gateway's host.
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

// vouches checks that somebody who is present confirms this very key.
func (s *Service) vouches(caller access.Caller, req *palyrav1.ConfirmPresenceKeyRequest) error {
	dev, err := s.device(caller)
	if err != nil {
		return err
	}
	return s.proves(dev, "", req.GetProof(), presence.Confirmation{
		Gateway: s.gateway, By: dev.ID, Device: req.GetDeviceId(), KeySHA256: req.GetKeySha256(), Nonce: req.GetProof().GetNonce(),
	})
}

// ResetPresenceKey takes the presence key from a device.
func (s *Service) ResetPresenceKey(ctx context.Context, req *palyrav1.ResetPresenceKeyRequest) (*palyrav1.ResetPresenceKeyResponse, error) {
	caller := s.caller(ctx)
	// Whoever copied the host's own credential has its certificate, and must not get rid
	// of the key that they do not have. The socket takes the uid.
	if !host(caller) {
		return nil, reason.Errorf(reason.PermissionDenied, "only the gateway's own host takes a presence key away").
			WithRemedy("Run `palyrad presence reset %s` there.", req.GetDeviceId())
	}
	was, err := s.devices.ResetPresence(ctx, caller.Principal, req.GetDeviceId())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ResetPresenceKeyResponse{Was: KeyMessage(was)}, nil
}

// Prove returns the caller as its vote counts: present where the vote carries a proof, and
// the proof where a passkey gave it, which is kept with the vote. One that is wrong is an
// error, and nothing is to be voted.
func (s *Service) Prove(ctx context.Context, caller access.Caller, vote *palyrav1.DecideApprovalRequest) (_ access.Caller, byPasskey *passkey.Assertion, err error) {
	caller.Present = false
	switch {
	case vote.GetPresence() != nil && vote.GetPasskey() != nil:
		return caller, nil, reason.Errorf(reason.InvalidInput, "a vote carries one proof of presence, not two")
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

// provePresence checks a vote that carries a signature of its device's presence key.
func (s *Service) provePresence(caller access.Caller, vote *palyrav1.DecideApprovalRequest) error {
	dev, err := s.device(caller)
	if err != nil {
		return err
	}
	return s.proves(dev, vote.GetApprovalId(), vote.GetPresence(), Statement(s.gateway, dev.ID, vote))
}

// proves checks a proof by the presence key that a device has now.
func (s *Service) proves(dev identity.Device, approval string, proof *palyrav1.PresenceProof, said presence.Statement) error {
	if !dev.Presence.Proves() {
		return unproven(dev)
	}
	if err := s.book.Redeem(dev.ID, approval, proof.GetNonce()); err != nil {
		return err
	}
	return presence.Verify(dev.Presence.Public, said, proof.GetSignature())
}

// host reports whether a caller has the word of the gateway's host: the local operator's
// socket itself, and no session of the console that began there and may be stolen.
func host(c access.Caller) bool {
	return c.Transport == access.TransportSocket && c.Surface != access.SurfaceConsole
}

// device is that of a person who showed its certificate. Nothing else proves presence:
// what came over the socket showed no key, a token can be copied, and a login session has
// no key that lasts.
func (s *Service) device(c access.Caller) (identity.Device, error) {
	dev, known := s.devices.Device(c.DeviceID)
	switch {
	case !c.Paired || c.Token != nil || c.Transport != "" || !known || dev.Revoked():
		return dev, reason.Errorf(reason.PresenceNotProven, "only who shows the certificate of a device proves to be present").
			WithRemedy("Use the credential bundle of a device, without --socket and not that of a token.")
	case dev.Session():
		return dev, reason.Errorf(reason.PresenceNotProven, "a login session has no presence key").
			WithRemedy("Use the credential bundle of a device: `palyrad operator bundle NAME` on the gateway's host, or `palyra pair`.")
	case c.Principal.Kind != access.KindUser:
		return dev, reason.Errorf(reason.PermissionDenied, "%s is no person, and cannot be present", c.Principal)
	}
	return dev, nil
}

// unproven is why a device proves nothing.
func unproven(dev identity.Device) error {
	if dev.Presence.Waits {
		return reason.Errorf(reason.PresenceNotProven, "the presence key of device %s waits to be confirmed", dev.ID).
			WithRemedy("Somebody with a presence key runs `palyra key presence --confirm %s`; or run `palyrad presence confirm %s` on the gateway's host.", dev.ID, dev.ID)
	}
	return reason.Errorf(reason.PresenceNotProven, "device %s has no presence key", dev.ID).
		WithRemedy("Make one: `palyra key presence --passphrase`. Then vote with --present.")
}

// Wanted adds the way on to the error of a vote to which policy wants presence.
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

// Statement is what a proof says of a vote, at both of its ends.
func Statement(gateway, device string, v *palyrav1.DecideApprovalRequest) presence.Vote {
	return presence.Vote{
		Gateway: gateway, Device: device, Approval: v.GetApprovalId(), CallDigest: v.GetShownDigest(), Allow: v.GetAllow(),
		Scope: v.GetScope().String(), Match: v.GetMatch().String(), TTL: v.GetTtl().AsDuration(), Uses: v.GetUses(),
		Reason: v.GetReason(), Surface: v.GetSurface(), Nonce: v.GetPresence().GetNonce(),
	}
}

// KeyMessage is a presence key as the API shows it; nil for none.
func KeyMessage(k identity.PresenceKey) *palyrav1.PresenceKey {
	if len(k.Public) == 0 {
		return nil
	}
	return &palyrav1.PresenceKey{Sha256: k.SHA256(), RegisteredAt: timestamppb.New(k.At), Waits: k.Waits}
}
