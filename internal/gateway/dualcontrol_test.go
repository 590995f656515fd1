package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/packages"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/changetable"
)

func csr(t *testing.T) []byte {
	t.Helper()
	key := must.Get(identity.BundleKey(filepath.Join(t.TempDir(), "key")))(t)
	block, _ := pem.Decode(must.Get(identity.Request(key))(t))
	return block.Bytes
}

// changes has one change for every row of the table that requires two people, in an order in
// which each has an effect. before, if set, prepares the change with an operation that one
// person may make.
func (d *team) changes() []struct {
	procedure, by string
	before        func()
	change        func(context.Context, person) error
} {
	t := d.t
	eve, device := csr(t), csr(t)
	var version, pending, notes string
	local, said := d.as("local"), newToolServer(t)
	first, second := d.installed("packed", "1.0"), d.installed("packed", "1.1")
	return []struct {
		procedure, by string
		before        func()
		change        func(context.Context, person) error
	}{
		{palyrav1connect.AccessServiceAddMemberProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.access.AddMember(ctx, &palyrav1.AddMemberRequest{Name: "eve", Kind: "user", Roles: []string{"auditor"}, CertificateRequest: eve})
			return err
		}},
		{palyrav1connect.AccessServiceUpdateMemberProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.access.UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{"developer"}})
			return err
		}},
		{palyrav1connect.AccessServiceConfirmMemberProcedure, "bob", nil, func(ctx context.Context, p person) error {
			_, err := p.access.ConfirmMember(ctx, &palyrav1.ConfirmMemberRequest{Member: "dan"})
			return err
		}},
		{palyrav1connect.AccessServiceEnableMemberProcedure, "local", func() {
			must.Get(local.access.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "dan", AcceptLoss: true}))(t)
		}, func(ctx context.Context, p person) error {
			_, err := p.access.EnableMember(ctx, &palyrav1.EnableMemberRequest{Member: "dan", AcceptLoss: true})
			return err
		}},
		{palyrav1connect.IdentityServiceAddDeviceProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.identity.AddDevice(ctx, &palyrav1.AddDeviceRequest{Member: "dan", CertificateRequest: device, AcceptLoss: true})
			return err
		}},
		{palyrav1connect.AccessServiceRemoveMemberProcedure, "cyd", nil, func(ctx context.Context, p person) error {
			_, err := p.access.RemoveMember(ctx, &palyrav1.RemoveMemberRequest{Member: "eve", AcceptLoss: true})
			return err
		}},
		{palyrav1connect.PolicyServiceReloadPolicyProcedure, "local", func() {
			version = must.Get(local.policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t).GetVersion()
			must.Write(t, filepath.Join(d.cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
		}, func(ctx context.Context, p person) error {
			_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
			return err
		}},
		{palyrav1connect.PolicyServiceActivatePolicyProcedure, "cyd", nil, func(ctx context.Context, p person) error {
			_, err := p.policy.ActivatePolicy(ctx, &palyrav1.ActivatePolicyRequest{Version: version})
			return err
		}},
		{palyrav1connect.AccessReviewServiceSetCeilingProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.review.SetCeiling(ctx, &palyrav1.SetCeilingRequest{Name: "channel:ops", Allowed: true})
			return err
		}},
		{palyrav1connect.McpServiceAddUpstreamProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: &palyrav1.UpstreamServer{Name: "said", Url: said.URL}})
			return err
		}},
		{palyrav1connect.McpServiceApproveUpstreamProcedure, "cyd", func() {
			said.description.Store("Something else.")
			pending = must.Get(local.mcp.RefreshUpstream(t.Context(), &palyrav1.RefreshUpstreamRequest{Name: "said"}))(t).GetUpstream().GetPendingDigest()
		}, func(ctx context.Context, p person) error {
			_, err := p.mcp.ApproveUpstream(ctx, &palyrav1.ApproveUpstreamRequest{Name: "said", PendingDigest: pending})
			return err
		}},
		{palyrav1connect.McpServiceUpdateUpstreamProcedure, "local", func() { d.addPacked(first) }, func(ctx context.Context, p person) error {
			_, err := p.mcp.UpdateUpstream(ctx, &palyrav1.UpdateUpstreamRequest{Name: "packed", Prefix: second})
			return err
		}},
		{palyrav1connect.NotifyServiceMapChatUserProcedure, "local", nil, func(ctx context.Context, p person) error {
			_, err := p.notices.MapChatUser(ctx, &palyrav1.MapChatUserRequest{Team: "T0001", User: "U0001", Member: "user:bob"})
			return err
		}},
		{palyrav1connect.SkillServiceTrustPublisherProcedure, "local", nil, trustKey("example.org", "first")},
		{palyrav1connect.SkillServiceInstallSkillProcedure, "cyd", func() { notes = local.stage(skillFile(t, "1.0.0", "first")) }, func(ctx context.Context, p person) error {
			return installSkill(notes)(ctx, p)
		}},
		{palyrav1connect.SkillServiceSetSkillStatusProcedure, "local", func() { must.Do(t, local.setStatus(palyrav1.SkillStatus_SKILL_STATUS_DISABLED, "")) }, enable("")},
		{palyrav1connect.StatusServiceThawProcedure, "local", func() {
			must.Get(local.status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "look"}))(t)
		}, func(ctx context.Context, p person) error {
			_, err := p.status.Thaw(ctx, &palyrav1.ThawRequest{})
			return err
		}},
	}
}

// installed writes a version of a package as an installation does, and returns its digest.
// TestUpdateTakesTwo covers a package installed by pip.
func (d *team) installed(server, version string) string {
	d.t.Helper()
	digest := canonical.Digest([]byte(version))
	dir := filepath.Join(statedir.Packages(d.cfg.StateDir), "installed", server)
	must.Do(d.t, os.MkdirAll(dir, 0o700))
	must.Do(d.t, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")+".json"), must.Get(json.Marshal(packages.Installed{
		Package: declared.Package{Ecosystem: declared.PyPI, Name: server, Version: version, Integrity: "sha256:" + version, Registry: "https://pypi.example.org/simple", Prefix: digest},
	}))(d.t), 0o600))
	return digest
}

// addPacked adds the server of an installed package, with the approval of a second person.
func (d *team) addPacked(prefix string) {
	d.t.Helper()
	w := d.as("bob").ask("local", func(ctx context.Context, p person) error {
		_, err := p.mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: &palyrav1.UpstreamServer{
			Name: "packed", Command: []string{"packed"}, Package: &palyrav1.UpstreamPackage{Prefix: prefix},
		}})
		return err
	})
	must.Do(d.t, d.as("bob").vote(w.question, true))
	must.Do(d.t, api.ReasonOf(<-w.done))
}

// TestNoChangeWithoutTwo tries every row of the table. No change is made without a vote, after
// a denial, with the requester's own vote, or with the vote of a member without the role. It is
// made after another owner or admin approves, and the journal names both.
func TestNoChangeWithoutTwo(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	// The test makes more requests and reads than the default limits permit.
	cfg.Approvals.MaxCreatedPerMinutePerRun, cfg.RateLimits.Read = 1000, config.RateLimit{PerSecond: 1000, Burst: 1000}
	d := newTeam(t, cfg)
	covered := map[string]bool{}
	for _, c := range d.changes() {
		covered[c.procedure] = true
		if c.before != nil {
			c.before()
		}
		voter := map[string]string{"local": "bob", "bob": "local", "cyd": "bob"}[c.by]
		was := d.state()
		unchanged := func(when string) {
			t.Helper()
			if is := d.state(); is != was {
				t.Errorf("%s: changed %s:\nwas %s\nis  %s", c.procedure, when, was, is)
			}
		}
		w := d.as(voter).ask(c.by, c.change)
		unchanged("before anybody answered")
		for _, name := range []string{c.by, "dan"} {
			if d.as(name).vote(w.question, true) == nil {
				t.Errorf("%s: the yes of %s was taken", c.procedure, name)
			}
		}
		unchanged("by votes that do not count")
		w.withdraw()
		unchanged("for somebody who left")
		w = d.as(voter).ask(c.by, c.change)
		must.Do(t, d.as(voter).vote(w.question, true))
		if err := <-w.done; err != nil {
			t.Fatalf("%s: %v", c.procedure, api.ReasonOf(err))
		}
		if d.state() == was {
			t.Errorf("%s changed nothing", c.procedure)
		}
		done := d.as("bob").events(event.GatewayChange)
		last := done[len(done)-1]
		for _, want := range []string{w.question.GetApprovalId(), w.question.GetCallDigest(), "user:" + voter, "user:" + c.by} {
			if !strings.Contains(string(last.GetPayloadJson()), want) {
				t.Errorf("%s: the event lacks %s: %s", c.procedure, want, last.GetPayloadJson())
			}
		}
	}
	for procedure, row := range changetable.Rows() {
		// A call takes changes back, unless the gateway is frozen: TestUndoWhileFrozen.
		if row.Kind != "" && row.Kind != change.UndoChanges && !covered[procedure] {
			t.Errorf("%s is not tried", procedure)
		}
	}
	notices := strings.Join(d.status().GetNotices(), "\n")
	if !strings.Contains(notices, "dual control is on") || !strings.Contains(notices, "user:bob") {
		t.Errorf("%s", notices)
	}
}

// TestNoAndLaterChanges: a denial is final, and only the approved change is applied. A change
// with another base requires another approval.
func TestNoAndLaterChanges(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	give := func(role string) func(context.Context, person) error {
		return func(ctx context.Context, p person) error {
			_, err := p.access.UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{role}})
			return err
		}
	}
	bob := d.as("bob")
	w := bob.ask("local", give("developer"))
	must.Do(t, bob.vote(w.question, false))
	if err := api.ReasonOf(<-w.done); reason.Of(err) != reason.ApprovalDenied || !strings.Contains(err.Error(), "because") {
		t.Errorf("after a no: %v", err)
	}
	// Two changes of one member are pending. The first changes the base of the second.
	first := bob.ask("local", give("auditor"))
	second := bob.ask("cyd", give("developer"))
	must.Do(t, bob.vote(first.question, true))
	must.Do(t, <-first.done)
	must.Do(t, bob.vote(second.question, true))
	if err := api.ReasonOf(<-second.done); reason.Of(err) != reason.BindingMismatch {
		t.Errorf("over another base: %v", err)
	}
	// The policy directory changes after the request: either the displayed texts come into force,
	// or none.
	path := filepath.Join(d.cfg.Policy.Dir, "10-own.cedar")
	reload := func(ctx context.Context, p person) error {
		_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
		return err
	}
	must.Write(t, path, forbids("echo"))
	w = bob.ask("local", reload)
	if !strings.Contains(w.question.GetPrompt().GetDiff(), "no-echo") {
		t.Errorf("the question shows %q", w.question.GetPrompt().GetDiff())
	}
	was := d.state()
	must.Write(t, path, forbids("sleep"))
	must.Do(t, bob.vote(w.question, true))
	if err := api.ReasonOf(<-w.done); reason.Of(err) != reason.BindingMismatch {
		t.Errorf("with other files: %v", err)
	}
	if d.state() != was {
		t.Error("what nobody saw is in force")
	}
}

// TestRequesterLosesTheRole: a requester that loses the role before the approval changes nothing.
func TestRequesterLosesTheRole(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	bob := d.as("bob")
	w := bob.ask("cyd", func(ctx context.Context, p person) error {
		_, err := p.access.UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{"developer"}})
		return err
	})
	must.Get(bob.access.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "cyd", AcceptLoss: true}))(t)
	was := d.state()
	if err := bob.vote(w.question, true); err == nil {
		t.Log("the vote was in time for a question that nobody waits for")
	}
	if err := <-w.done; err == nil {
		t.Error("changed for somebody who is disabled")
	}
	if d.state() != was {
		t.Error("it changed")
	}
}

// TestActivationUnderEverySet: under a set that forbids everything, two owners can still
// activate another set, one by request and one by approval. The policies still forbid
// everything else.
func TestActivationUnderEverySet(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	bob, local := d.as("bob"), d.as("local")
	good := must.Get(local.policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t).GetVersion()
	must.Write(t, filepath.Join(d.cfg.Policy.Dir, "10-own.cedar"), "@id(\"nothing\")\n@reason(\"nobody does anything\")\nforbid(principal, action, resource);\n")
	w := bob.ask("local", func(ctx context.Context, p person) error {
		_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
		return err
	})
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	if _, err := local.access.ListMembers(t.Context(), &palyrav1.ListMembersRequest{}); reason.Of(api.ReasonOf(err)) != reason.PermissionDenied {
		t.Errorf("the set forbids nothing: %v", err)
	}
	if _, err := d.as("cyd").policy.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: good}); reason.Of(api.ReasonOf(err)) != reason.PermissionDenied {
		t.Errorf("an admin whom policy forbids it: %v", err)
	}
	cyd := d.as("cyd")
	w = cyd.ask("local", func(ctx context.Context, p person) error {
		_, err := p.policy.ActivatePolicy(ctx, &palyrav1.ActivatePolicyRequest{Version: good})
		return err
	})
	list := must.Get(cyd.approvals.ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{}))(t).GetApprovals()
	if !slices.ContainsFunc(list, func(v *palyrav1.Approval) bool { return v.GetApprovalId() == w.question.GetApprovalId() }) {
		t.Error("whoever can answer does not see the question")
	}
	must.Do(t, cyd.vote(w.question, true))
	must.Do(t, <-w.done)
	if got := must.Get(local.policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t); got.GetVersion() != good || !got.GetActivated() {
		t.Errorf("%s is in force", got.GetVersion())
	}
}

// TestLostDevice: with two owners, one revokes the lost device of the other by a single vote and
// continues alone. The journal and the status report this.
func TestLostDevice(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := newTeam(t, cfg)
	local := d.as("local")
	must.Get(local.access.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "cyd", AcceptLoss: true}))(t)
	for _, dev := range must.Get(local.identity.ListDevices(t.Context(), &palyrav1.ListDevicesRequest{}))(t).GetDevices() {
		if dev.GetPrincipal() == "user:bob" {
			must.Get(local.identity.RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: dev.GetDeviceId(), AcceptLoss: true}))(t)
		}
	}
	must.Get(local.access.UpdateMember(t.Context(), &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{"auditor"}}))(t)
	alone := local.events(event.GatewayChange)
	last := string(alone[len(alone)-1].GetPayloadJson())
	if !strings.Contains(last, `"alone":true`) || !strings.Contains(last, "user:bob has no device") {
		t.Errorf("the journal says %s", last)
	}
	for _, when := range []string{"at once", "after a start"} {
		notices := strings.Join(d.status().GetNotices(), "\n")
		for _, want := range []string{"dual control is off", "user:bob has no device", "user:cyd is disabled", "by user:local alone"} {
			if !strings.Contains(notices, want) {
				t.Errorf("%s: status lacks %q:\n%s", when, want, notices)
			}
		}
		if when == "at once" {
			d.end()
			d.again()
		}
	}
}

// TestHostPrintsThePendingApproval: a change made on the gateway's host prints the approval that it
// waits for, and how to approve it.
func TestHostPrintsThePendingApproval(t *testing.T) {
	t.Parallel()
	d := newTeam(t, testConfig(t))
	for _, name := range []string{"add", "bundle"} {
		said, told := io.Pipe()
		member := "dan"
		args := []string{"operator", name, "--state-dir", d.cfg.StateDir, "--out", filepath.Join(t.TempDir(), "b")}
		if name == "add" {
			member, args = "eve", append(args, "--role", "developer", "--yes")
		}
		c := Command(io.Discard, told)
		c.SetArgs(append(args, member))
		done := make(chan error, 1)
		go func() { done <- errors.Join(c.ExecuteContext(t.Context()), told.Close()) }()
		lines := bufio.NewScanner(said)
		id := ""
		for id == "" && lines.Scan() {
			_, rest, _ := strings.Cut(lines.Text(), ": approval ")
			id, _, _ = strings.Cut(rest, ", `palyra approve ")
		}
		go func() {
			for lines.Scan() {
			}
		}()
		bob := d.as("bob")
		res, err := bob.approvals.GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id})
		if err != nil {
			t.Fatalf("%s says %q: %v", name, id, err)
		}
		must.Do(t, bob.vote(res.GetApproval(), true))
		must.Do(t, <-done)
	}
	d.end()
}

// TestDualControlSwitchedOff is the negative control: with the setting off, one person's act is
// enough, and the start and the status report this.
func TestDualControlSwitchedOff(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	cfg.DualControl = false
	d := newTeam(t, cfg)
	local := d.as("local")
	must.Get(local.access.UpdateMember(t.Context(), &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{"auditor"}}))(t)
	if n := len(local.events(event.DualControlOff)); n != 2 {
		t.Errorf("%d events of two starts", n)
	}
	if notices := strings.Join(d.status().GetNotices(), "\n"); !strings.Contains(notices, "dual_control = false") {
		t.Errorf("%s", notices)
	}
	v := must.Get(local.policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t).GetVersion()
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
	d.end()
	d.again()
	if got := must.Get(d.as("local").policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t).GetVersion(); got == v {
		t.Error("the directory does not count")
	}
}

// TestDirectoryIsAProposal: while changes require two people, the policy directory alone
// changes nothing, neither while palyrad runs, nor by a signal, nor after a restart. It comes
// into force once a second person or the host approves.
func TestDirectoryIsAProposal(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := newTeam(t, cfg)
	version := func() string {
		return must.Get(d.as("local").policy.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{}))(t).GetVersion()
	}
	was := version()
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
	d.running.reload <- struct{}{}
	d.running.reload <- struct{}{} // the first reload is done once the second is received
	proposed := func(when string) {
		t.Helper()
		if version() != was {
			t.Errorf("%s: the directory is in force", when)
		}
		st := d.status()
		if notices := strings.Join(st.GetNotices(), "\n"); !strings.Contains(notices, "a proposal, not in force: `palyra policy reload`") || !strings.Contains(st.GetPolicyDirectory().GetProblem(), "palyra policy reload") {
			t.Errorf("%s: status says %s, %s", when, notices, st.GetPolicyDirectory().GetProblem())
		}
	}
	proposed("after a signal")
	if n := len(d.as("local").events(event.PolicyProposed)); n != 1 {
		t.Errorf("%d events of one proposal", n)
	}
	d.end()
	d.again()
	proposed("after a start")
	d.end()
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.cedar"), forbids("sleep"))
	d.again()
	proposed("changed while palyrad was down")
	bob := d.as("bob")
	w := bob.ask("local", func(ctx context.Context, p person) error {
		_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
		return err
	})
	must.Do(t, bob.vote(w.question, true))
	must.Do(t, <-w.done)
	approved := version()
	if notices := strings.Join(d.status().GetNotices(), "\n"); approved == was || strings.Contains(notices, "a proposal") {
		t.Errorf("approved: %s, %s", approved, notices)
	}
	d.end()
	d.again()
	if version() != approved {
		t.Error("what was approved is not in force after a start")
	}
	// The host's administrator resets the policies alone.
	d.end()
	must.Do(t, os.Remove(filepath.Join(cfg.Policy.Dir, "10-own.cedar")))
	must.Get(ResetPolicy(t.Context(), cfg))(t)
	d.again()
	if version() != was {
		t.Error("the host's reset does not count")
	}
	if notices := strings.Join(d.status().GetNotices(), "\n"); !strings.Contains(notices, "reset on the gateway's host") {
		t.Errorf("nobody is told: %s", notices)
	}
}

// TestThawWithoutPalyrad: the host ends a freeze while palyrad does not run, and all members are
// notified. A restart withdraws pending approvals.
func TestThawWithoutPalyrad(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := newTeam(t, cfg)
	must.Get(d.as("local").status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "look"}))(t)
	w := d.as("bob").ask("local", func(ctx context.Context, p person) error {
		_, err := p.status.Thaw(ctx, &palyrav1.ThawRequest{})
		return err
	})
	if _, err := ThawAlone(t.Context(), cfg); err == nil {
		t.Error("thawed beside a palyrad that runs")
	}
	d.end()
	if err := <-w.done; err == nil {
		t.Error("thawed by a stop")
	}
	d.again()
	if !d.status().GetFreeze().GetFrozen() {
		t.Error("a restart ended the freeze")
	}
	if err := d.as("bob").vote(w.question, true); reason.Of(err) != reason.ApprovalConflict {
		t.Errorf("a question of before the start: %v", err)
	}
	d.end()
	must.Get(ThawAlone(t.Context(), cfg))(t)
	if _, err := ThawAlone(t.Context(), cfg); reason.Of(err) != reason.NotFound {
		t.Errorf("a second time: %v", err)
	}
	d.again()
	if st := d.status(); st.GetFreeze().GetFrozen() || !strings.Contains(strings.Join(st.GetNotices(), "\n"), "a freeze was ended on the gateway's host") {
		t.Errorf("%v", st.GetNotices())
	}
}

// toolServer is an MCP server over HTTP with one tool, whose description a test changes.
type toolServer struct {
	*httptest.Server

	description atomic.Value
}

func newToolServer(t *testing.T) *toolServer {
	t.Helper()
	s := &toolServer{}
	s.description.Store("Does something.")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := `"error":{"code":-32601,"message":"no"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"said","version":"1"}}`
		case "tools/list":
			answer = fmt.Sprintf(`"result":{"tools":[{"name":"t","description":%q,"inputSchema":{"type":"object"}}]}`, s.description.Load())
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
	}))
	t.Cleanup(s.Close)
	return s
}
