package client

import (
	"context"
	"crypto"
	"path"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
	"palyra/internal/identity/presence"
	"palyra/internal/surface/api/presenceproof"
)

// Prover creates proofs of presence with the presence key of the credential in use.
type Prover struct {
	keys Keys
	g    *Gateway
	// Dir is the bundle, Device its device, Gateway the gateway's identifier in proofs.
	Dir, Device, Gateway string
	// Ask returns a passphrase; nil prompts at the terminal.
	Ask func(ctx context.Context, question string) (string, error)
}

// Prover returns the prover of a connection's credential. Only a device's own credential has a
// presence key.
func (a *App) Prover(g *Gateway) (Prover, error) {
	dir, err := a.BundleInUse()
	if err != nil {
		return Prover{}, err
	}
	b, err := identity.ReadBundle(dir)
	if err != nil {
		return Prover{}, err
	}
	if a.Socket || b.Token != "" || b.Login {
		return Prover{}, reason.Errorf(reason.PresenceNotProven, "a proof of presence requires the credential of a device, not the socket, a token or a login").
			WithRemedy("Specify the bundle of a device with --credentials, without --socket.")
	}
	return Prover{keys: a.Keys, g: g, Dir: dir, Device: path.Base(b.Chain[0].URIs[0].Path), Gateway: presenceproof.Gateway(b.Root)}, nil
}

// Vote adds a proof to an otherwise complete vote.
func (p Prover) Vote(ctx context.Context, vote *palyrav1.DecideApprovalRequest) error {
	key, nonce, err := p.unlocked(ctx, vote.GetApprovalId())
	if err != nil {
		return err
	}
	vote.Presence = &palyrav1.PresenceProof{Nonce: nonce}
	vote.Presence.Signature, err = presence.Sign(key, presenceproof.Statement(p.Gateway, p.Device, vote))
	return err
}

// Confirm confirms the presence key of another device.
func (p Prover) Confirm(ctx context.Context, device, sha256 string) (*palyrav1.PresenceKey, error) {
	key, nonce, err := p.unlocked(ctx, "")
	if err != nil {
		return nil, err
	}
	signature, err := presence.Sign(key, presence.Confirmation{Gateway: p.Gateway, By: p.Device, Device: device, KeySHA256: sha256, Nonce: nonce})
	if err != nil {
		return nil, err
	}
	reply, err := p.g.Presence.ConfirmPresenceKey(ctx, &palyrav1.ConfirmPresenceKeyRequest{
		DeviceId: device, KeySha256: sha256, Proof: &palyrav1.PresenceProof{Nonce: nonce, Signature: signature},
	})
	return reply.GetKey(), err
}

// ConfirmMembers confirms members on behalf of the gateway's host; the credential must belong
// to the host's device. It returns the principals of the confirmed members.
func (p Prover) ConfirmMembers(ctx context.Context, members []string) ([]string, error) {
	key, nonce, err := p.unlocked(ctx, "")
	if err != nil {
		return nil, err
	}
	signature, err := presence.Sign(key, presence.MemberConfirmation{Gateway: p.Gateway, By: p.Device, Members: members, Nonce: nonce})
	if err != nil {
		return nil, err
	}
	reply, err := p.g.Presence.ConfirmMembers(ctx, &palyrav1.ConfirmMembersRequest{
		Members: members, Proof: &palyrav1.PresenceProof{Nonce: nonce, Signature: signature},
	})
	return reply.GetMembers(), err
}

// Register registers a presence key of the device, signed by the existing key if there is one.
func (p Prover) Register(ctx context.Context, kept *keptkey.Kept, key crypto.Signer) (registered *palyrav1.PresenceKey, err error) {
	challenge, err := p.g.Presence.ChallengePresence(ctx, &palyrav1.ChallengePresenceRequest{})
	if err != nil {
		return nil, err
	}
	said := presence.Enrolment{Gateway: p.Gateway, Device: p.Device, PublicKey: kept.PublicKey, Nonce: challenge.GetNonce()}
	req := &palyrav1.RegisterPresenceKeyRequest{PublicKey: kept.PublicKey, Proof: &palyrav1.PresenceProof{Nonce: said.Nonce}}
	if req.Proof.Signature, err = presence.Sign(key, said); err != nil {
		return nil, err
	}
	if was := challenge.GetKeySha256(); was != "" {
		before, err := p.unlock(ctx, was)
		if err != nil {
			return nil, err
		}
		if req.PreviousSignature, err = presence.Sign(before, said); err != nil {
			return nil, err
		}
	}
	err = identity.KeepPresence(p.Dir, kept, func() error {
		reply, err := p.g.Presence.RegisterPresenceKey(ctx, req)
		registered = reply.GetKey()
		return err
	})
	return registered, err
}

// unlocked returns the presence key, and a challenge for one proof.
func (p Prover) unlocked(ctx context.Context, approval string) (crypto.Signer, []byte, error) {
	challenge, err := p.g.Presence.ChallengePresence(ctx, &palyrav1.ChallengePresenceRequest{ApprovalId: approval})
	if err != nil {
		return nil, nil, err
	}
	if challenge.GetKeySha256() == "" {
		return nil, nil, reason.Errorf(reason.PresenceNotProven, "this device has no presence key").
			WithRemedy("Create one: `palyra key presence --passphrase`.")
	}
	key, err := p.unlock(ctx, challenge.GetKeySha256())
	return key, challenge.GetNonce(), err
}

// unlock returns the presence key with a digest. It prompts for the passphrase each time.
func (p Prover) unlock(ctx context.Context, sha256 string) (crypto.Signer, error) {
	lost := "If it is lost: run `palyrad presence reset " + p.Device + "` on the gateway's host, then `palyra key presence --passphrase`."
	kept, err := identity.Presence(p.Dir, sha256)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return nil, reason.Errorf(reason.PresenceNotProven, "the bundle %s does not have the presence key that is registered at the gateway", p.Dir).WithRemedy("%s", lost)
	}
	ask := p.Ask
	if ask == nil {
		ask = p.keys.Passphrase
	}
	phrase, err := ask(ctx, "passphrase of the presence key: ")
	if err != nil {
		return nil, err
	}
	key, err := kept.Unseal(phrase)
	if reason.Of(err) == reason.NotConnected {
		return nil, reason.Errorf(reason.PresenceNotProven, "the passphrase of the presence key is wrong").WithRemedy("Try again. %s", lost)
	}
	return key, err
}
