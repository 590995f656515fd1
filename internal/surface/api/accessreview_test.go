package api_test

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func (c *client) review() palyrav1connect.AccessReviewServiceClient {
	return palyrav1connect.NewAccessReviewServiceClient(c.http, c.w.url)
}

// TestShowAgreesWithEvaluateTool: the review of a tool agrees with a dry run by the member, and
// with the member's list of tools.
func TestShowAgreesWithEvaluateTool(t *testing.T) {
	t.Parallel()
	for name, policies := range map[string]string{
		"default": "",
		"others": `@id("no-reading") @reason("not this one") forbid(principal == User::"dan", action == Action::"tool.execute/fs.read", resource);
@id("asks") forbid(principal == Agent::"coder", action == Action::"tool.execute/fs.read", resource) unless { context.approval.approvers >= 1 };
@id("nobody-could") forbid(principal == User::"bob", action == Action::"tool.execute/process.run", resource) unless { context.approval.approvers >= 99 };`,
	} {
		w := newWorld(t, func(w *world) { w.policies = policies })
		seen := map[palyrav1.ToolAccessVerdict]bool{}
		for who, c := range map[string]*client{"user:alice": w.alice, "user:bob": w.bob, "user:dan": w.dan, "user:eve": w.eve, "agent:coder": w.coder} {
			shown := must.Get(w.alice.review().ShowAccess(t.Context(), &palyrav1.ShowAccessRequest{Principal: who}))(t)
			if len(shown.GetTools()) != 2 {
				t.Fatalf("%s: tools %v", who, shown.GetTools())
			}
			for _, tool := range shown.GetTools() {
				seen[tool.GetVerdict()] = true
				input := map[string]string{"fs.read": `{"path":"a"}`, "process.run": `{"argv":["make"]}`}[tool.GetTool()]
				want := palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_DENIED
				dry, err := c.gateway().EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: tool.GetTool(), InputJson: []byte(input)})
				switch {
				case err != nil:
					wantError(t, who, err, reason.PermissionDenied)
				case dry.GetVerdict() == "allow":
					want = palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ALLOWED
				case dry.GetVerdict() == "ask":
					want = palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ASKED
				}
				if tool.GetVerdict() != want {
					t.Errorf("%s: %s and %s: shown %s, evaluated %v %v", name, who, tool.GetTool(), tool.GetVerdict(), dry, err)
				}
				if denied := want == palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_DENIED; denied != (tool.GetMessage() != "") || denied != (tool.GetRemedy() != "") || !denied && len(tool.GetPolicies()) == 0 {
					t.Errorf("%s: %s and %s: %v", name, who, tool.GetTool(), tool)
				}
				if err == nil && len(dry.GetDetermining()) > 0 && want == palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ASKED && tool.GetPolicies()[0].GetPolicyId() != dry.GetDetermining()[0].GetPolicyId() {
					t.Errorf("%s: %s and %s: asked by %v, evaluated %v", name, who, tool.GetTool(), tool.GetPolicies(), dry.GetDetermining())
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("%s: only %v were seen", name, seen)
		}
	}
}

// TestReviewRefusalHasTheCommonForm: the refusal of a review of another member has the same form as
// other refusals, and is journaled.
func TestReviewRefusalHasTheCommonForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, explained := w.bob.review().ExplainAccess(t.Context(), &palyrav1.ExplainAccessRequest{Principal: "alice", Method: "tool.call"})
	_, shown := w.coder.review().ShowAccess(t.Context(), &palyrav1.ShowAccessRequest{Principal: "alice"})
	_, listed := w.dan.review().ListRoles(t.Context(), &palyrav1.ListRolesRequest{})
	for what, err := range map[string]error{"explain": explained, "show": shown, "roles": listed} {
		if info := wantError(t, what, err, reason.PermissionDenied); info.GetMetadata()["permission"] != "access.read" {
			t.Errorf("%s: %v", what, info)
		}
	}
	for _, r := range []refusal{
		{"user:bob", palyrav1connect.AccessReviewServiceExplainAccessProcedure, reason.PermissionDenied},
		{"agent:coder", palyrav1connect.AccessReviewServiceShowAccessProcedure, reason.PermissionDenied},
		{"user:dan", palyrav1connect.AccessReviewServiceListRolesProcedure, reason.PermissionDenied},
	} {
		if !w.audit.has(r) {
			t.Errorf("%v was not audited", r)
		}
	}
	if _, err := w.coder.review().ShowAccess(t.Context(), &palyrav1.ShowAccessRequest{Principal: "agent:coder"}); err != nil {
		t.Errorf("the control: about oneself: %v", err)
	}
}
