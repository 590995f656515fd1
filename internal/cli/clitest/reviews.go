package clitest

import (
	"palyra/internal/core/reason"

	palyrav1 "palyra/gen/palyra/v1"
)

var ceiling = &palyrav1.Determining{
	PolicyId: "ceiling.only-people-decide", File: "10-ceilings.cedar", Line: 46, Effect: "forbid",
	Reason: "only people decide approvals, never agents or services", Remedy: "Ask an operator to decide.",
}

// serveReviews serves reviews of agent:claude, which may call tools but not decide, and of ada, who
// has every permission.
func serveReviews(f *Gateway) {
	f.reply(
		&palyrav1.ListRolesResponse{Roles: []*palyrav1.Role{
			{Role: "owner", Builtin: true, Permissions: []string{"tool.list", "tool.call", "approval.decide"}, Members: []string{"user:ada"}},
			{Role: "agent", Builtin: true, Permissions: []string{"tool.list", "tool.call"}, Members: []string{"agent:claude"}},
			{Role: "security", Permissions: []string{"tool.list"}},
		}},
		&palyrav1.ListCeilingsResponse{Ceilings: []*palyrav1.Ceiling{
			{Name: "*", Allowed: true}, {Name: "channel:ops", Allowed: true, SetBy: "user:ada", At: now},
		}},
		&palyrav1.SetCeilingResponse{Ceiling: &palyrav1.Ceiling{SetBy: "user:ada", At: now}},
	)
	edit(f, func(req *palyrav1.SetCeilingRequest, res *palyrav1.SetCeilingResponse) {
		res.Ceiling.Name, res.Ceiling.Allowed, res.Ceiling.Reason = req.GetName(), req.GetAllowed(), req.GetReason()
	})
	on(f, func(req *palyrav1.ExplainAccessRequest) (*palyrav1.ExplainAccessResponse, error) {
		who, err := reviewed(req.GetPrincipal())
		if err != nil {
			return nil, err
		}
		r := &palyrav1.ExplainAccessResponse{
			Principal: who, Permission: "approval.decide", Methods: []string{"ApprovalsService/DecideApproval"}, PolicyVersion: "sha256:aa",
		}
		if who == "user:ada" {
			r.Roles, r.Allowed, r.Message = []string{"owner"}, true, "user:ada may approval.decide"
			r.Policies = []*palyrav1.Determining{{PolicyId: "access.owner", File: "30-access.cedar", Line: 13, Effect: "permit", Reason: "an owner may do everything that the API offers"}}
			r.Notes = []string{"Policy is asked again for each approval, by its severity and its requester; this is about approvals in general."}
			return r, nil
		}
		r.Roles, r.Reason, r.Message = []string{"agent"}, string(reason.PermissionDenied), "agent:claude may not approval.decide: "+ceiling.GetReason()
		r.Policies, r.WhoMay = []*palyrav1.Determining{ceiling}, []string{"user:ada"}
		r.Remedy = "The built-in policy ceiling.only-people-decide is a ceiling that no role and no other policy lifts. Ask user:ada."
		return r, nil
	})
	on(f, func(req *palyrav1.ShowAccessRequest) (*palyrav1.ShowAccessResponse, error) {
		who, err := reviewed(req.GetPrincipal())
		return &palyrav1.ShowAccessResponse{
			Principal: who, Roles: []string{"agent"}, Owner: "user:ada", PolicyVersion: "sha256:aa",
			Tools: []*palyrav1.ToolAccess{
				{Tool: "fs.read", Verdict: palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ALLOWED, Policies: []*palyrav1.Determining{{PolicyId: "tools.not-sensitive", File: "20-tools.cedar", Line: 9, Effect: "permit"}}},
				{Tool: "process.run", Verdict: palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ASKED, Policies: []*palyrav1.Determining{{PolicyId: "tools.sensitive", File: "20-tools.cedar", Line: 21, Effect: "permit"}}},
				{Tool: "http.fetch", Verdict: palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_DENIED, Message: "the tool is not among the allowed tools",
					Remedy: "Ask an operator to add the tool to allowed_tools.", Policies: []*palyrav1.Determining{{PolicyId: "ceiling.tool-allowlist", File: "10-ceilings.cedar", Line: 4, Effect: "forbid"}}},
			},
			Permissions: []*palyrav1.PermissionAccess{{Permission: "tool.call", Allowed: true}, {Permission: "approval.decide", Policies: []*palyrav1.Determining{ceiling}}},
			Notes:       []string{"agent:claude has no device: until it has one, or a token, nobody can act as it. `palyrad operator bundle claude` on the gateway's host makes one."},
		}, err
	})
}

func reviewed(name string) (string, error) {
	switch name {
	case "claude", "agent:claude":
		return "agent:claude", nil
	case "ada", "user:ada":
		return "user:ada", nil
	}
	return "", notFound("the member %s does not exist", name)
}
