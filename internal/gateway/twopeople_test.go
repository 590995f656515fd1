package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestTwoPeopleAreTwo: a member whom the only owner created does not count as a second person, also
// after a restart, until the gateway's host confirms the member. All members are then notified.
func TestTwoPeopleAreTwo(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(cfg.Policy.Dir, "two.cedar"), []byte(`@id("two")
@reason("echo needs two people")
forbid(principal, action == Action::"tool.execute/echo", resource)
unless { context.approval.approvers >= 2 };`), 0o600))
	evaluate := func(d *running) *palyrav1.EvaluateToolResponse {
		calls := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
		return must.Get(calls.EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)}))(t)
	}
	d := start(t, cfg)
	for _, name := range []string{"bob", "carol"} {
		must.Get(AddOperator(t.Context(), cfg, NewOperator{
			Name: name, Roles: []access.Role{access.RoleOperator}, Dir: filepath.Join(t.TempDir(), name), AcceptLoss: true,
		}))(t)
	}
	if v := evaluate(d); v.GetVerdict() != "deny" || !strings.Contains(v.GetRemedy(), "palyrad members confirm") {
		t.Errorf("before: %s, %s", v.GetVerdict(), v.GetRemedy())
	}
	d.end()
	d = start(t, cfg)
	if v := evaluate(d); v.GetVerdict() != "deny" {
		t.Errorf("after a start: %s", v.GetVerdict())
	}
	d.end()
	confirmed := must.Get(ConfirmMembers(t.Context(), cfg, nil))(t)
	if !slices.Contains(confirmed, "user:bob") || !slices.Contains(confirmed, "user:carol") {
		t.Errorf("confirmed %v", confirmed)
	}
	d = start(t, cfg)
	if v := evaluate(d); v.GetVerdict() != "ask" {
		t.Errorf("confirmed: %s, %s", v.GetVerdict(), v.GetRemedy())
	}
	st := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
	told := strings.Join(st.GetNotices(), "\n")
	if !strings.Contains(told, "confirmed on the gateway's host") || !strings.Contains(told, "user:carol") {
		t.Errorf("nobody is told: %q", st.GetNotices())
	}
	d.end()
}

// TestConfirmMembersWhileRunning: root confirms members over the socket of a running palyrad.
// Other users, which agents may also run as, are refused.
func TestConfirmMembersWhileRunning(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen.SocketOperator = true
	d := start(t, cfg)
	must.Get(AddOperator(t.Context(), cfg, NewOperator{
		Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: filepath.Join(t.TempDir(), "bob"), AcceptLoss: true,
	}))(t)
	notices := func() string {
		st := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		return strings.Join(st.GetNotices(), "\n")
	}
	confirmed, err := ConfirmMembers(t.Context(), cfg, []string{"bob"})
	if os.Geteuid() == 0 {
		if err != nil || !slices.Equal(confirmed, []string{"user:bob"}) || !strings.Contains(notices(), "confirmed on the gateway's host in the last seven days") {
			t.Errorf("root confirmed %v: %v, and status shows %q", confirmed, err, notices())
		}
	} else if reason.Of(err) != reason.PresenceNotProven || strings.Contains(notices(), "confirmed on the gateway's host") {
		t.Errorf("uid %d confirmed %v: %v", os.Geteuid(), confirmed, err)
	}
	d.end()
}
