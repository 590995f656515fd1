package calls

import (
	"context"
	"fmt"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api/presenceproof"
)

// provenLines reports for each passkey vote whether its signature is valid. It verifies with this
// device's copy of the gateway's root and the public key that the gateway returns; palyra journal
// verify uses the key in the journal.
func provenLines(ctx context.Context, a *client.App, g *client.Gateway, v *palyrav1.Approval) (lines []string) {
	gateway := ""
	if dir, err := a.BundleInUse(); err == nil {
		if b, err := identity.ReadBundle(dir); err == nil {
			gateway = presenceproof.Gateway(b.Root)
		}
	}
	for _, vote := range v.GetVotes() {
		if vote.GetPasskey() == nil {
			continue
		}
		said := "is not verified: no credential here has the gateway's root"
		if gateway != "" {
			said = proven(ctx, g, gateway, v.GetApprovalId(), vote)
		}
		lines = append(lines, fmt.Sprintf("%s: the passkey's signature %s", vote.GetUser(), said))
	}
	return lines
}

// proven verifies the passkey signature of one vote.
func proven(ctx context.Context, g *client.Gateway, gateway, approval string, vote *palyrav1.ApprovalVote) string {
	reply, err := g.Presence.ListPasskeys(ctx, &palyrav1.ListPasskeysRequest{Member: vote.GetUser()})
	signed := assertion(vote.GetPasskey())
	for _, k := range reply.GetPasskeys() {
		if k.GetPasskeyId() != passkey.Text(signed.CredentialID) {
			continue
		}
		if _, err := signed.Verify(k.GetPublicKey(), passkey.Party{ID: k.GetRpId()}, votedOf(gateway, approval, vote)); err != nil {
			return "DOES NOT CHECK: " + printer.VisibleLine(err.Error())
		}
		return fmt.Sprintf("is valid: %q signed this vote", printer.VisibleLine(k.GetName()))
	}
	if err != nil {
		return "is not verified: " + client.Explain(nil, err).Message + "; `palyra journal verify` checks it"
	}
	return "is not verified: its passkey was removed; `palyra journal verify` verifies it"
}

func assertion(m *palyrav1.PasskeyAssertion) passkey.Assertion {
	return passkey.Assertion{
		CredentialID: m.GetCredentialId(), AuthenticatorData: m.GetAuthenticatorData(), ClientDataJSON: m.GetClientDataJson(), Signature: m.GetSignature(),
		Nonce: m.GetNonce(), Version: m.GetVersion(),
	}
}

// votedOf returns the statement that the passkey of a vote must have signed.
func votedOf(gateway, approval string, vote *palyrav1.ApprovalVote) passkey.Vote {
	decision := "deny"
	if vote.GetAllow() {
		decision = "allow"
	}
	return passkey.Vote{
		Gateway: gateway, Voter: vote.GetUser(), Approval: approval, Version: vote.GetPasskey().GetVersion(), CallDigest: vote.GetShownDigest(), Decision: decision,
		Scope: printer.Enum(vote.GetScope()), Match: printer.Enum(vote.GetMatch()), TTL: vote.GetTtl().AsDuration(), Uses: vote.GetUses(),
		Reason: vote.GetReason(), Surface: vote.GetSurface(), Nonce: vote.GetPasskey().GetNonce(),
	}
}
