package gateway

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/changetable"
)

// request requests a change as a caller that does not wait, and returns the approval's id.
func (d *team) request(by string, change func(context.Context, person) error) string {
	d.t.Helper()
	ctx, gone := context.WithCancel(d.t.Context())
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set(changetable.WaitHeader, changetable.NoWait)
	err := change(ctx, d.as(by))
	gone()
	fields := infoOf(err).GetMetadata()
	if reason.Of(api.ReasonOf(err)) != reason.ChangePending || fields["approval_id"] == "" || fields["expires_at"] == "" {
		d.t.Fatalf("%s does not wait: %v, %v", by, err, fields)
	}
	return fields["approval_id"]
}

// approval returns an approval by its id, as visible to bob.
func (d *team) approval(id string) *palyrav1.Approval {
	d.t.Helper()
	return must.Get(d.as("bob").approvals.GetApproval(d.t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(d.t).GetApproval()
}

// ended waits until an approval is settled, and returns it.
func (d *team) ended(id string) *palyrav1.Approval {
	d.t.Helper()
	must.Eventually(d.t, "the approval is settled", func() (bool, string) {
		s := d.approval(id).GetState()
		return s != palyrav1.ApprovalState_APPROVAL_STATE_PENDING && s != palyrav1.ApprovalState_APPROVAL_STATE_ALLOWED, s.String()
	})
	return d.approval(id)
}

// giveDan gives dan a role.
func giveDan(role string) func(context.Context, person) error {
	return func(ctx context.Context, p person) error {
		_, err := p.access.UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "dan", AddRoles: []string{role}})
		return err
	}
}

// TestPendingChanges: each change whose caller does not wait returns the id of its approval and
// has no effect yet. The daemon applies it once it is approved. An added member gets its
// certificate by repeating the same request, and by no other request.
func TestPendingChanges(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	said, eve := newToolServer(t), csr(t)
	must.Write(t, filepath.Join(d.cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
	addEve := func(ctx context.Context, p person, request []byte) (*palyrav1.AddMemberResponse, error) {
		return p.access.AddMember(ctx, &palyrav1.AddMemberRequest{Name: "eve", Kind: "user", Roles: []string{"auditor"}, CertificateRequest: request})
	}
	for name, change := range map[string]func(context.Context, person) error{
		"policy reload": func(ctx context.Context, p person) error {
			_, err := p.policy.ReloadPolicy(ctx, &palyrav1.ReloadPolicyRequest{})
			return err
		},
		"members add": func(ctx context.Context, p person) error {
			_, err := addEve(ctx, p, eve)
			return err
		},
		"members roles": giveDan("developer"),
		"mcp add": func(ctx context.Context, p person) error {
			_, err := p.mcp.AddUpstream(ctx, &palyrav1.AddUpstreamRequest{Server: &palyrav1.UpstreamServer{Name: "said", Url: said.URL}})
			return err
		},
	} {
		was := d.state()
		id := d.request("local", change)
		if again := d.request("local", change); again != id {
			t.Errorf("%s: asked again it is %s, not %s", name, again, id)
		}
		if d.state() != was {
			t.Errorf("%s: changed before anybody answered", name)
		}
		must.Do(t, d.as("bob").vote(d.approval(id), true))
		v := d.ended(id)
		if v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED || v.GetRequestedBy() != "user:local" || v.GetVotes()[0].GetUser() != "user:bob" {
			t.Errorf("%s: %s by %s", name, v.GetState(), v.GetRequestedBy())
		}
		must.Eventually(t, "the change is applied", func() (bool, string) { return d.state() != was, name })
	}
	made := must.Get(addEve(t.Context(), d.as("local"), eve))(t)
	if made.GetCertificateChain() == "" || made.GetDeviceId() == "" || made.GetMember().GetPrincipal() != "user:eve" {
		t.Errorf("the credential cannot be collected: %v", made)
	}
	for name, by := range map[string]person{"another key": d.as("local"), "another requester": d.as("cyd")} {
		request := eve
		if name == "another key" {
			request = csr(t)
		}
		if _, err := addEve(t.Context(), by, request); reason.Of(api.ReasonOf(err)) != reason.AlreadyExists {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCollectedMemberIsInThePolicies: a credential is accepted immediately after it is
// collected, also if it is collected between the write of the member and the rebuild of the
// policies.
func TestCollectedMemberIsInThePolicies(t *testing.T) {
	t.Parallel()
	g := must.Get(build(t.Context(), Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	must.Do(t, g.policies.Loader.Load(t.Context()))
	local := access.Caller{Principal: access.User("local"), Roles: []access.Role{access.RoleOwner}}
	eve, request := access.User("eve"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr(t)})
	add := func(by access.Principal, name string, role access.Role, request []byte) {
		must.Do(t, permitted(t, g, change.AddMember, func(ctx context.Context) error {
			_, err := g.identity.Members.AddMember(ctx, by, name, access.KindUser, []access.Role{role}, access.Principal{}, request, true)
			return err
		}))
	}
	add(identity.Daemon(), "local", access.RoleOwner, csr(t))
	add(local.Principal, "eve", access.RoleAuditor, request)
	if g.engine.Current().Access().LetsIn(eve) {
		t.Fatal("the policies include the member before they were rebuilt: this test shows nothing")
	}
	m := memberAdmin(g)
	_, found, err := m.Collect(t.Context(), local, api.NewMember{Name: "eve", Kind: access.KindUser, Roles: []access.Role{access.RoleAuditor}, Request: request})
	if must.Do(t, err); !found {
		t.Fatal("the credential is not found")
	}
	if !g.engine.Current().Access().LetsIn(eve) {
		t.Error("the policies do not include the member whose credential was collected")
	}
}

// TestPendingChangeEndsWithItsRequester: a change whose caller has disconnected ends when the
// requester is disabled, or loses the role or the device. Control: without such a change it
// stays pending and is applied.
func TestPendingChangeEndsWithItsRequester(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, person) error{
		"control": nil,
		"disabled": func(t *testing.T, bob person) error {
			_, err := bob.access.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "cyd", AcceptLoss: true})
			return err
		},
		"device revoked": func(t *testing.T, bob person) error {
			for _, dev := range must.Get(bob.identity.ListDevices(t.Context(), &palyrav1.ListDevicesRequest{}))(t).GetDevices() {
				if dev.GetPrincipal() == "user:cyd" {
					_, err := bob.identity.RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: dev.GetDeviceId(), AcceptLoss: true})
					return err
				}
			}
			return reason.Errorf(reason.NotFound, "cyd has no device")
		},
		"loses the role": func(t *testing.T, bob person) error {
			w := bob.team.as("local").ask("bob", func(ctx context.Context, p person) error {
				_, err := p.access.UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "cyd", AddRoles: []string{"auditor"}, RemoveRoles: []string{"admin"}, AcceptLoss: true})
				return err
			})
			must.Do(t, bob.team.as("local").vote(w.question, true))
			return <-w.done
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTeam(t, policyConfigAt(t))
			id := d.request("cyd", giveDan("developer"))
			if lose == nil {
				must.Do(t, d.as("bob").vote(d.approval(id), true))
				if v := d.ended(id); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED {
					t.Errorf("control: %s", v.GetState())
				}
				return
			}
			must.Do(t, lose(t, d.as("bob")))
			if v := d.ended(id); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED || !strings.Contains(v.GetEndedBecause(), "no longer permitted to make this change") {
				t.Errorf("%s: %q", v.GetState(), v.GetEndedBecause())
			}
			if err := d.as("bob").vote(d.approval(id), true); reason.Of(err) != reason.ApprovalConflict {
				t.Errorf("a yes after that: %v", err)
			}
		})
	}
}

// TestPendingChangeOverARestart: a change that is pending when palyrad stops is cancelled with
// a reason at the next start. The same request then requires a new approval.
func TestPendingChangeOverARestart(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	id := d.request("local", giveDan("developer"))
	d.end()
	d.again()
	was := d.state()
	if v := d.approval(id); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED || !strings.Contains(v.GetEndedBecause(), "palyrad stopped while it waited") {
		t.Errorf("%s: %q", v.GetState(), v.GetEndedBecause())
	}
	if err := d.as("bob").vote(d.approval(id), true); reason.Of(err) != reason.ApprovalConflict || d.state() != was {
		t.Errorf("a yes after the start: %v", err)
	}
	again := d.request("local", giveDan("developer"))
	must.Do(t, d.as("bob").vote(d.approval(again), true))
	if v := d.ended(again); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED {
		t.Errorf("control: %s", v.GetState())
	}
}

// TestPendingChangeOverAFreeze: changes of the gateway can wait and be applied while it is
// frozen. An approved thaw ends only the freeze that the approvers were asked about.
func TestPendingChangeOverAFreeze(t *testing.T) {
	t.Parallel()
	d := newTeam(t, policyConfigAt(t))
	thaw := func(ctx context.Context, p person) error {
		_, err := p.status.Thaw(ctx, &palyrav1.ThawRequest{})
		return err
	}
	freeze := func(why string) {
		must.Get(d.as("cyd").status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: why}))(t)
	}
	roles := d.request("local", giveDan("developer"))
	freeze("look")
	must.Do(t, d.as("bob").vote(d.approval(roles), true))
	if v := d.ended(roles); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED {
		t.Errorf("a change of a member while frozen: %s", v.GetState())
	}
	first := d.request("local", thaw)
	second := d.request("bob", thaw)
	must.Do(t, d.as("local").vote(d.approval(second), true))
	d.ended(second)
	must.Eventually(t, "the freeze ends", func() (bool, string) { return !d.status().GetFreeze().GetFrozen(), "" })
	freeze("something else")
	must.Do(t, d.as("bob").vote(d.approval(first), true))
	if v := d.ended(first); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED || !strings.Contains(v.GetEndedBecause(), "not applied") {
		t.Errorf("a thaw of another freeze: %s, %q", v.GetState(), v.GetEndedBecause())
	}
	if !d.status().GetFreeze().GetFrozen() {
		t.Error("a yes to the end of one freeze ended another")
	}
}

// TestInterruptedAddition: an addition on the host that is interrupted while it waits is
// withdrawn. Its key is lost, and the member would be unusable.
func TestInterruptedAddition(t *testing.T) {
	t.Parallel()
	d := newTeam(t, testConfig(t))
	dir := filepath.Join(t.TempDir(), "b")
	said, told := io.Pipe()
	c := Command(io.Discard, told)
	c.SetArgs([]string{"operator", "add", "--state-dir", d.cfg.StateDir, "--out", dir, "--role", "developer", "--yes", "eve"})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done := make(chan error, 1)
	go func() { done <- errors.Join(c.ExecuteContext(ctx), told.Close()) }()
	lines, id := bufio.NewScanner(said), ""
	for id == "" && lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), ": approval ")
		id, _, _ = strings.Cut(rest, ", `palyra approve ")
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	if v := d.approval(id); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		t.Fatalf("control: %s before the interruption", v.GetState())
	}
	interrupt()
	if err := <-done; err == nil {
		t.Error("added although it was interrupted")
	}
	if v := d.ended(id); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED {
		t.Errorf("%s after the interruption", v.GetState())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key is still there: %v", err)
	}
}
