//go:build palyrainit

package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/record"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// TestRevokedCallerEndsItsProgram: a program ends when the credential that started it is
// revoked, and none of its changes reaches the workspace. The program ignores signals, and its
// client has disconnected. The call of another caller continues.
func TestRevokedCallerEndsItsProgram(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, func(cfg *config.Config) { cfg.DualControl = false })
	members := palyrav1connect.NewAccessServiceClient(g.client(), g.url())
	devices := palyrav1connect.NewIdentityServiceClient(g.client(), g.url())
	begin := func(name string) (id string, status *palyrav1.GetStatusResponse) {
		dir := filepath.Join(t.TempDir(), name)
		must.Get(AddOperator(t.Context(), g.cfg, NewOperator{
			Name: name, Roles: []access.Role{access.RoleDeveloper, access.RoleOperator}, Dir: dir, AcceptLoss: true,
		}))(t)
		c := dialAs(t, dir)
		input := must.Get(json.Marshal(map[string]any{"argv": []string{"sh", "-c", "trap '' TERM INT HUP; echo stray > " + name + ".txt; echo ready; sleep 600 & wait"}}))(t)
		stream := must.Get(palyrav1connect.NewGatewayServiceClient(c, g.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{
			Tool: "process.run", InputJson: input, IdempotencyKey: name,
		}))(t)
		for stream.Receive() {
			switch e := stream.Msg().GetEvent().(type) {
			case *palyrav1.CallToolResponse_Proposed:
				id = e.Proposed.GetProposalId()
			case *palyrav1.CallToolResponse_Output:
				must.Do(t, stream.Close())
				return id, must.Get(palyrav1connect.NewStatusServiceClient(c, g.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
			}
		}
		t.Fatalf("%s has no output: %v", name, stream.Err())
		return "", nil
	}
	goesOn, _ := begin("zoe")
	for name, end := range map[string]func(name, device string) error{
		"abe": func(_, device string) error {
			_, err := devices.RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: device, Reason: "lost", AcceptLoss: true})
			return err
		},
		"ben": func(name, _ string) error {
			_, err := members.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: name, AcceptLoss: true})
			return err
		},
		"cat": func(name, _ string) error {
			_, err := members.RemoveMember(t.Context(), &palyrav1.RemoveMemberRequest{Member: name, AcceptLoss: true})
			return err
		},
		"dan": func(name, _ string) error {
			_, err := members.UpdateMember(t.Context(), &palyrav1.UpdateMemberRequest{Member: name, RemoveRoles: []string{"operator"}, AcceptLoss: true})
			return err
		},
	} {
		id, status := begin(name)
		from := time.Now()
		must.Do(t, end(name, status.GetCaller().GetDeviceId()))
		var attested record.Attested
		must.Eventually(t, "the call of "+name+" ends", func() (bool, string) {
			for _, e := range g.eventsOf(id) {
				if e.GetCode() == string(event.Attested) {
					must.Do(t, json.Unmarshal(e.GetPayloadJson(), &attested))
					return true, ""
				}
			}
			return false, "its events have no attestation"
		})
		t.Logf("%s: the end is on record after %s", name, time.Since(from))
		if r := attested.Report; r.Outcome != tool.Stopped || r.Changes == nil || r.Changes.State != tool.Discarded {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := os.Stat(filepath.Join(g.dir, name+".txt")); err == nil {
			t.Errorf("what the program of %s wrote is in the workspace", name)
		}
	}
	for _, e := range g.eventsOf(goesOn) {
		if e.GetCode() == string(event.Attested) {
			t.Error("the call of another ended")
		}
	}
	must.Get(palyrav1connect.NewGatewayServiceClient(g.client(), g.url()).CancelCall(t.Context(), &palyrav1.CancelCallRequest{ProposalId: goesOn}))(t)
}

// eventsOf returns the events of a call.
func (g *governed) eventsOf(id string) []*palyrav1.Event {
	g.t.Helper()
	return must.Get(palyrav1connect.NewJournalServiceClient(g.client(), g.url()).ListEvents(g.t.Context(), &palyrav1.ListEventsRequest{
		Filter: &palyrav1.EventFilter{Subject: id},
	}))(g.t).GetEvents()
}
