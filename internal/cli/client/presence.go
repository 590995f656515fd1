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

// Prover proves that the person at this terminal is there, by the presence key of the
// credential in use.
type Prover struct {
	a *App
	g *Gateway
	// Dir is the bundle, Device its device, Gateway what proofs name the gateway by.
	Dir, Device, Gateway string
	// Ask returns a passphrase; nil asks for it at the terminal.
	Ask func(ctx context.Context, question string) (string, error)
}

// Prover is for the credential of a connection. Only a device's own has a presence key.
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
		return Prover{}, reason.Errorf(reason.PresenceNotProven, "only the credential of a device proves that somebody is there: no socket, no token and no login").
			WithRemedy("Name the bundle of a device with --credentials, without --socket.")
	}
	return Prover{a: a, g: g, Dir: dir, Device: path.Base(b.Chain[0].URIs[0].Path), Gateway: presenceproof.Gateway(b.Root)}, nil
}

// Vote adds a proof to a vote that is complete but for it.
func (p Prover) Vote(ctx context.Context, vote *palyrav1.DecideApprovalRequest) error {
	key, nonce, err := p.unlocked(ctx, vote.GetApprovalId())
	if err != nil {
		return err
	}
	vote.Presence = &palyrav1.PresenceProof{Nonce: nonce}
	vote.Presence.Signature, err = presence.Sign(key, presenceproof.Statement(p.Gateway, p.Device, vote))
	return err
}

// Confirm makes the presence key of another device count.
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

// Register gives the device a presence key, for which the one that it has signs.
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

// unlocked is the presence key, and a number for one proof by it.
func (p Prover) unlocked(ctx context.Context, approval string) (crypto.Signer, []byte, error) {
	challenge, err := p.g.Presence.ChallengePresence(ctx, &palyrav1.ChallengePresenceRequest{ApprovalId: approval})
	if err != nil {
		return nil, nil, err
	}
	if challenge.GetKeySha256() == "" {
		return nil, nil, reason.Errorf(reason.PresenceNotProven, "this device has no presence key").
			WithRemedy("Make one: `palyra key presence --passphrase`.")
	}
	key, err := p.unlock(ctx, challenge.GetKeySha256())
	return key, challenge.GetNonce(), err
}

// unlock is the presence key with a digest. It is asked for each time.
func (p Prover) unlock(ctx context.Context, sha256 string) (crypto.Signer, error) {
	lost := "If it is lost: run `palyrad presence reset " + p.Device + "` on the gateway's host, then `palyra key presence --passphrase`."
	kept, err := identity.Presence(p.Dir, sha256)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return nil, reason.Errorf(reason.PresenceNotProven, "the bundle %s does not have the presence key that the gateway knows", p.Dir).WithRemedy("%s", lost)
	}
	ask := p.Ask
	if ask == nil {
		ask = p.a.Passphrase
	}
	phrase, err := ask(ctx, "passphrase of the presence key: ")
	if err != nil {
		return nil, err
	}
	key, err := kept.Unseal(phrase)
	if reason.Of(err) == reason.NotConnected {
		return nil, reason.Errorf(reason.PresenceNotProven, "the passphrase does not open the presence key").WithRemedy("Try again. %s", lost)
	}
	return key, err
}
