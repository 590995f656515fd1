package calls_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
	"palyra/internal/identity/passkey/passkeytest"
	"palyra/internal/surface/api/presenceproof"
)

// TestShowChecksPasskeys: approvals show prints whether a passkey signed exactly the displayed
// vote.
func TestShowChecksPasskeys(t *testing.T) {
	t.Parallel()
	const origin = "http://palyra-test.localhost:7145"
	digest := clitest.SomeApproval().GetCallDigest()
	for name, c := range map[string]struct {
		change func(w *clitest.World, v *palyrav1.ApprovalVote)
		says   string
	}{
		"as it was signed":    {func(*clitest.World, *palyrav1.ApprovalVote) {}, `user:ada: the passkey's signature is valid: "yubi" signed this vote`},
		"for longer":          {func(_ *clitest.World, v *palyrav1.ApprovalVote) { v.Ttl = durationpb.New(time.Hour) }, "DOES NOT CHECK"},
		"another call":        {func(_ *clitest.World, v *palyrav1.ApprovalVote) { v.ShownDigest = "sha256:" + strings.Repeat("0", 64) }, "DOES NOT CHECK"},
		"the passkey is gone": {func(w *clitest.World, _ *palyrav1.ApprovalVote) { w.Gateway.Passkeys = nil }, "its passkey was removed"},
	} {
		w := clitest.NewWorld(t)
		w.Pending()
		a := passkeytest.New(t, origin)
		said := passkey.Vote{
			Gateway: presenceproof.Gateway(must.Get(identity.ReadBundle(w.Bundle))(t).Root), Voter: "user:ada", Approval: clitest.ApprovalID, Version: 1, CallDigest: digest,
			Decision: "allow", Scope: "timeboxed", Match: "exact", TTL: 30 * time.Minute, Surface: "console", Nonce: []byte("once"),
		}
		signed := a.Sign(t, "palyra-test.localhost", must.Get(passkey.Challenge(said))(t))
		signed.Nonce, signed.Version = said.Nonce, said.Version
		w.Gateway.Passkeys = []passkey.Passkey{{ID: a.ID, Member: access.User("ada"), Name: "yubi", RPID: "palyra-test.localhost", PublicKey: a.PublicKey(t), Version: 1}}
		vote := &palyrav1.ApprovalVote{
			User: "user:ada", Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, Match: palyrav1.GrantMatch_GRANT_MATCH_EXACT, Ttl: durationpb.New(30 * time.Minute),
			Surface: "console", ShownDigest: digest, Present: true, Passkey: presenceproof.PasskeyProof(&signed),
		}
		c.change(w, vote)
		w.Gateway.Approvals[clitest.ApprovalID].Votes = []*palyrav1.ApprovalVote{vote}
		r := w.Run("approvals", "show", clitest.ApprovalID)
		w.Want(r, 0)
		if !strings.Contains(strings.Join(strings.Fields(r.Out), " "), c.says) {
			t.Errorf("%s: does not say %q:\n%s", name, c.says, r.Out)
		}
	}
}
