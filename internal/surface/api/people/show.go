package people

import (
	"cmp"
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// ShowAccess returns the permissions of a member.
func (s *ReviewService) ShowAccess(ctx context.Context, req *palyrav1.ShowAccessRequest) (*palyrav1.ShowAccessResponse, error) {
	r, err := s.begin(ctx, req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ShowAccessResponse{
		Principal: r.of.Principal.String(), Roles: roleNames(r.of.Roles), Owner: r.of.Owner.String(),
		PolicyVersion: r.set.Version(), Notes: r.notes(),
	}
	barred := r.refusedBecause(r.of)
	for _, p := range access.Permissions {
		j := r.authorize(r.of, p)
		res.Permissions = append(res.Permissions, &palyrav1.PermissionAccess{
			Permission: string(p), Allowed: j.Allowed && barred == nil, Policies: r.determining(j.Determining),
		})
	}
	if barred != nil {
		res.Notes = append(res.Notes, barred.Message+"; all its requests are refused. "+r.reactivation())
	}
	res.Tools = s.tools(r, barred)
	return res, nil
}

// tools returns every tool, with the verdict on calls of the member.
func (s *ReviewService) tools(r *review, barred *reason.Error) []*palyrav1.ToolAccess {
	catalog := map[string]bool{}
	for _, entry := range r.set.Catalog().Tools(caller(r.of)) {
		catalog[entry.Tool] = entry.MayAsk
	}
	call := r.explain(meaning{permission: access.PermToolCall})
	var out []*palyrav1.ToolAccess
	for _, d := range s.Tools.Descriptors() {
		one := &palyrav1.ToolAccess{Tool: d.Name, Verdict: palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_DENIED}
		mayAsk, listed := catalog[d.Name]
		switch unusable := s.Tools.Unusable(d.Name); {
		case barred != nil || !call.GetAllowed():
			one.Message, one.Remedy, one.Policies = call.GetMessage(), call.GetRemedy(), call.GetPolicies()
		case unusable != nil:
			why := reason.Known(unusable, reason.Internal)
			one.Message, one.Remedy = why.Message, why.NextStep()
		case !listed:
			r.denied(one, r.set.Catalog().Bars(caller(r.of), d.Name))
		default:
			one.Verdict = palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ALLOWED
			if mayAsk {
				one.Verdict = palyrav1.ToolAccessVerdict_TOOL_ACCESS_VERDICT_ASKED
			}
			one.Policies = r.determining(r.set.Catalog().Grounds(caller(r.of), d.Name))
		}
		out = append(out, one)
	}
	return out
}

// denied sets the reason why every call of a tool is denied, as ListTools does.
func (r *review) denied(one *palyrav1.ToolAccess, bars []policy.Determining) {
	why := reason.Errorf(reason.ApprovalUnattainable, "a call needs an approval, and no member can give it")
	if len(bars) > 0 {
		why = reason.Errorf(reason.PolicyDenied, "%s", cmp.Or(bars[0].Reason, "a policy forbids every call")).
			WithRemedy("%s", cmp.Or(bars[0].Remedy, reason.Lookup(reason.PolicyDenied).Remedy))
	}
	one.Message, one.Remedy, one.Policies = why.Message, why.NextStep(), r.determining(bars)
}
