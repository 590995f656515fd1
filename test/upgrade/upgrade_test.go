//go:build linux

package upgrade

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// TestUpgrade starts the current palyrad on the state directory of each older release. Its
// certificates, grants and approval requests may have expired. internal/gateway tests that
// unexpired ones stay valid.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, archive := range archives(t) {
		t.Run(named(archive), func(t *testing.T) {
			t.Parallel()
			dir, r := upgradetest.Unpack(t, archive)
			g := newGateway(t, programs, dir)
			g.Start()
			for _, check := range []struct {
				name string
				do   func(*gateway, upgradetest.Release)
			}{
				{"journal", verifies}, {"members", confirmed}, {"credentials", checkMembers}, {"policy", checkActivePolicies},
				{"asks", nothingLost}, {"attestations", attestationsVerify}, {"export", exportCrosses}, {"again", checkSecondStart},
			} {
				t.Run(check.name, func(t *testing.T) {
					outer := g.T
					g.T = t
					defer func() { g.T = outer }()
					check.do(g, r)
				})
			}
		})
	}
}

// verifies: the old export and key set verify with the current palyra, and so does the
// continued journal, against that key set.
func verifies(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	old, keys := filepath.Join(g.Dir, "export.ndjson"), filepath.Join(g.Dir, "keys.json")
	local.ok("journal", "verify", old, "--keys", keys)
	local.ok("journal", "verify", "--keys", keys)
	size := must.Get(local.journal.GetCheckpoint(g.T.Context(), &palyrav1.GetCheckpointRequest{Fresh: true}))(g.T).GetTreeSize()
	if size <= r.Events {
		g.T.Errorf("the journal has %d events, and had %d", size, r.Events)
	}
	// Control: the export does not verify with a changed event.
	text := must.Get(os.ReadFile(old))(g.T)
	changed := filepath.Join(g.Dir, "changed.ndjson")
	must.Do(g.T, os.WriteFile(changed, []byte(strings.Replace(string(text), `"user:dev"`, `"user:eve"`, 1)), 0o600))
	local.run("journal", "verify", changed, "--keys", keys).Want(g.T, 8)
}

// confirmed: all members are still confirmed by the host, and the upgrade adds no confirmation.
func confirmed(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	list := local.events("PAL-I114")
	if len(list) != r.Confirmations {
		g.T.Fatalf("%d events say that members were confirmed", len(list))
	}
	var all []string
	for _, e := range list {
		var said struct {
			Members []string `json:"members"`
			Host    bool     `json:"host"`
		}
		if must.Do(g.T, json.Unmarshal(e.GetPayloadJson(), &said)); said.Host {
			all = append(all, said.Members...)
		}
	}
	for _, member := range members {
		if !slices.Contains(all, member) {
			g.T.Errorf("%s is not confirmed, only %v", member, all)
		}
	}
	res := must.Get(local.members.ListMembers(g.T.Context(), &palyrav1.ListMembersRequest{}))(g.T)
	for _, m := range res.GetMembers() {
		if len(m.GetInHandsOf()) != 0 {
			g.T.Errorf("%s is in the hands of %v", m.GetPrincipal(), m.GetInHandsOf())
		}
	}
}

// checkMembers: every member can connect with the old credential while it is valid, and with a
// new one from the host, and has the same identity. A revoked device remains revoked.
func checkMembers(g *gateway, r upgradetest.Release) {
	for name, member := range members {
		if name == "local" {
			continue
		}
		is := func(c *client) {
			status := must.Get(c.status.GetStatus(g.T.Context(), &palyrav1.GetStatusRequest{}))(g.T)
			if status.GetCaller().GetPrincipal() != member {
				g.T.Errorf("%s is %v", name, status.GetCaller())
			}
		}
		if time.Since(r.MadeAt) < 12*time.Hour {
			is(g.as(name))
		}
		fresh := name + "-fresh"
		g.host("operator", "bundle", member, "--out", g.bundle(fresh))
		is(g.as(fresh))
		if !strings.Contains(g.as(fresh).ok("status"), member) {
			g.T.Errorf("palyra status does not say %s", member)
		}
	}
	if _, err := g.as("revoked").status.GetStatus(g.T.Context(), &palyrav1.GetStatusRequest{}); err == nil {
		g.T.Error("a revoked device works after the upgrade")
	}
	for name, tool := range map[string]string{"dev-fresh": "fs.read", "helper-fresh": "fs.read", "local": "fs.read"} {
		if e := g.as(name).call(tool, `{"path":"a.txt"}`); e.word != "succeeded" {
			g.T.Errorf("%s's call of %s %s: %v", name, tool, e.word, e.decision)
		}
	}
	e := g.as("dev-fresh").call("fs.write", `{"path":"new.txt","content":"new"}`)
	if e.word != "asks" {
		g.T.Fatalf("a write %s", e.word)
	}
	a := upgradetest.Ask{ID: e.approval.GetApprovalId(), Digest: e.approval.GetCallDigest()}
	must.Get(g.as("ann-fresh").decide(a, &palyrav1.DecideApprovalRequest{Allow: true}))(g.T)
	for _, name := range []string{"cyd-fresh", "dev-fresh", "helper-fresh"} {
		if _, err := g.as(name).decide(a, &palyrav1.DecideApprovalRequest{Allow: true}); code(err) != connect.CodePermissionDenied {
			g.T.Errorf("%s decides: %v", name, err)
		}
	}
}

// checkActivePolicies: the activated version is in force, not the later one of the directory, and
// its rule requires two approvers.
func checkActivePolicies(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	now := must.Get(local.policies.GetPolicy(g.T.Context(), &palyrav1.GetPolicyRequest{}))(g.T)
	if !now.GetActivated() || len(now.GetSources()) == 0 || now.GetDirectory().GetInForce() {
		g.T.Errorf("in force is %s, activated %v, directory %v", now.GetVersion(), now.GetActivated(), now.GetDirectory())
	}
	kept := must.Get(local.policies.GetPolicy(g.T.Context(), &palyrav1.GetPolicyRequest{Version: r.Activated}))(g.T)
	if len(kept.GetSources()) != 1 || kept.GetSources()[0].GetText() != firstPolicies {
		g.T.Errorf("the activated version is %v", kept.GetSources())
	}
	if e := g.as("dev-fresh").call("echo", `{"text":"x"}`); e.word != "succeeded" {
		g.T.Errorf("echo %s: the policies of the directory are in force", e.word)
	}
	// The host gave every member another device, so every member must be confirmed again.
	g.Stop()
	g.host("members", "confirm", "--all")
	g.Start()
	e := g.as("dev-fresh").call("fs.write", `{"path":"two/new.txt","content":"new"}`)
	if e.word != "asks" {
		g.T.Fatalf("a write below two/ %s: %v", e.word, e.decision)
	}
	a := upgradetest.Ask{ID: e.approval.GetApprovalId(), Digest: e.approval.GetCallDigest()}
	for i, voter := range []string{"bob-fresh", "eve-fresh"} {
		after := must.Get(g.as(voter).decide(a, &palyrav1.DecideApprovalRequest{Allow: true}))(g.T)
		if want := []palyrav1.ApprovalState{palyrav1.ApprovalState_APPROVAL_STATE_PENDING, palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED}[i]; after.GetState() != want && after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED {
			g.T.Errorf("after %s's vote it is %s, missing %q", voter, after.GetState(), after.GetMissing())
		}
	}
}

// nothingLost: every old approval request and grant exists and has its correct state.
func nothingLost(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	for i, a := range r.Asks {
		now := local.approval(a.ID)
		want := palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED
		if now.GetExpiresAt().AsTime().After(time.Now()) {
			want = palyrav1.ApprovalState_APPROVAL_STATE_PENDING
		}
		if now.GetState() != want || now.GetCallDigest() != a.Digest || len(now.GetVotes()) != []int{0, 1, 0}[i] {
			g.T.Errorf("ask %d is %s with %d votes, want %s", i, now.GetState(), len(now.GetVotes()), want)
		}
	}
	grants := must.Get(local.approvals.ListGrants(g.T.Context(), &palyrav1.ListGrantsRequest{IncludeEnded: true}))(g.T).GetGrants()
	if !slices.ContainsFunc(grants, func(g *palyrav1.Grant) bool { return g.GetGrantId() == r.Granted.Grant && g.GetUses() == 1 }) {
		g.T.Errorf("the grant is gone: %v", grants)
	}
	if time.Since(r.MadeAt) < 12*time.Hour {
		stillAnswers(g, r)
	}
}

// stillAnswers: unexpired approvals and grants can be decided and used as before.
func stillAnswers(g *gateway, r upgradetest.Release) {
	if e := g.as("dev").call(r.Granted.Tool, r.Granted.Input); e.word != "succeeded" || e.decision.GetGrantId() != r.Granted.Grant {
		g.T.Errorf("the granted call %s: %v", e.word, e.decision)
	}
	for i, voter := range []string{"ann", "eve"} {
		a := r.Asks[i]
		after := must.Get(g.as(voter).decide(a, &palyrav1.DecideApprovalRequest{Allow: true}))(g.T)
		if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED {
			g.T.Errorf("after %s's vote ask %d is %s, missing %q", voter, i, after.GetState(), after.GetMissing())
		}
		if e := g.as(a.Member).call(a.Tool, a.Input); e.word != "succeeded" || e.decision.GetApprovalId() != a.ID {
			g.T.Errorf("the call of ask %d %s: %v", i, e.word, e.decision)
		}
	}
	after := must.Get(g.as("ann").decide(r.Asks[2], &palyrav1.DecideApprovalRequest{Reason: "no"}))(g.T)
	if after.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_DENIED {
		g.T.Errorf("after a no it is %s", after.GetState())
	}
}

// attestationsVerify: the attestations verify with the old and the current key set.
func attestationsVerify(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	for _, id := range r.Attested {
		envelope := filepath.Join(g.Dir, id+".json")
		must.Do(g.T, os.WriteFile(envelope, must.Get(local.attested.GetAttestation(g.T.Context(), &palyrav1.GetAttestationRequest{Id: id}))(g.T).GetEnvelopeJson(), 0o600))
		local.ok("attest", "verify", envelope, "--keys", filepath.Join(g.Dir, "keys.json"))
		local.ok("attest", "show", id)
	}
}

// exportCrosses: an export after the upgrade starts with the content of the old one, and
// verifies with both key sets.
func exportCrosses(g *gateway, r upgradetest.Release) {
	local := g.as("local")
	path, keys := filepath.Join(g.Dir, "after.ndjson"), filepath.Join(g.Dir, "keys-after.json")
	local.ok("journal", "export", path)
	must.Do(g.T, os.WriteFile(keys, []byte(local.ok("attest", "keys", "-o", "json")), 0o600))
	for _, k := range []string{keys, filepath.Join(g.Dir, "keys.json")} {
		local.ok("journal", "verify", path, "--keys", k)
	}
	before := strings.Split(string(must.Get(os.ReadFile(filepath.Join(g.Dir, "export.ndjson")))(g.T)), "\n")
	after := strings.Split(string(must.Get(os.ReadFile(path))(g.T)), "\n")
	for n := 1; n <= int(r.Events); n++ {
		if before[n] != after[n] {
			g.T.Fatalf("event %d was\n%s\nand is\n%s", n, before[n], after[n])
		}
	}
}

// checkSecondStart checks that the upgrade happens only once.
func checkSecondStart(g *gateway, _ upgradetest.Release) {
	before := len(g.as("local").events("PAL-I114"))
	g.Stop()
	g.Start()
	if n := len(g.as("local").events("PAL-I114")); n != before {
		g.T.Errorf("%d events say that members were confirmed, and %d did", n, before)
	}
	g.as("local").ok("journal", "verify")
}
