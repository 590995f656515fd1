//go:build linux

package upgrade

import (
	"os"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// TestUpgradeTakesTwo: the older release required one person for a change. On its state, a
// change requires a second person as soon as two exist, unless the configuration disables it:
// see newGateway.
func TestUpgradeTakesTwo(t *testing.T) {
	t.Parallel()
	for _, archive := range archives(t) {
		t.Run(named(archive), func(t *testing.T) {
			t.Parallel()
			dir, _ := upgradetest.Unpack(t, archive)
			g := newGateway(t, programs, dir)
			text := string(must.Get(os.ReadFile(g.Config))(t))
			must.Do(t, os.WriteFile(g.Config, []byte(strings.Replace(text, "dual_control = false\n", "", 1)), 0o600))
			// The old credential may have expired.
			g.host("operator", "bundle", "user:ann", "--out", g.bundle("ann-fresh"), "--listen-api", "127.0.0.1:7443")
			g.host("members", "confirm", "--all")
			g.Start()
			local, ann := g.as("local"), g.as("ann-fresh")
			said := must.Get(local.status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t).GetNotices()
			if !slices.ContainsFunc(said, func(n string) bool {
				return strings.Contains(n, "dual control is on") && strings.Contains(n, "user:ann")
			}) {
				t.Errorf("the status says %q", said)
			}
			done := make(chan error, 1)
			go func() {
				_, err := local.members.UpdateMember(t.Context(), &palyrav1.UpdateMemberRequest{Member: "user:dev", AddRoles: []string{"auditor"}, AcceptLoss: true})
				done <- err
			}()
			asked := ann.question()
			if hasRole(local, "user:dev", "auditor") {
				t.Error("changed before anybody answered")
			}
			must.Get(ann.decide(upgradetest.Ask{ID: asked.GetApprovalId(), Digest: asked.GetCallDigest()}, &palyrav1.DecideApprovalRequest{Allow: true}))(t)
			must.Do(t, <-done)
			if !hasRole(local, "user:dev", "auditor") {
				t.Error("not changed after a yes")
			}
			local.ok("journal", "verify")
		})
	}
}

// question waits for an approval request of the gateway.
func (c *client) question() *palyrav1.Approval {
	c.g.T.Helper()
	stream := must.Get(c.approvals.WatchApprovals(c.g.T.Context(), &palyrav1.WatchApprovalsRequest{}))(c.g.T)
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		a := stream.Msg().GetApproval()
		if a.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING && a.GetSubjectType() == palyrav1.ApprovalSubjectType_APPROVAL_SUBJECT_TYPE_GATEWAY_CHANGE {
			return a
		}
	}
	c.g.T.Fatalf("nobody was asked: %v", stream.Err())
	return nil
}

func hasRole(c *client, member, role string) bool {
	res := must.Get(c.members.ListMembers(c.g.T.Context(), &palyrav1.ListMembersRequest{}))(c.g.T)
	return slices.ContainsFunc(res.GetMembers(), func(m *palyrav1.Member) bool {
		return m.GetPrincipal() == member && slices.Contains(m.GetRoles(), role)
	})
}
