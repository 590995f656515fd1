package people

import (
	"context"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// ExplainAccess says whether a member has a permission.
func (s *ReviewService) ExplainAccess(ctx context.Context, req *palyrav1.ExplainAccessRequest) (*palyrav1.ExplainAccessResponse, error) {
	r, err := s.begin(ctx, req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	meant, err := s.meant(req.GetMethod())
	if err != nil {
		return nil, err
	}
	return r.explain(meant), nil
}

// meaning is what a question names.
type meaning struct {
	permission access.Permission
	methods    []string
	public     bool
}

// meant finds the permission or the method of a name.
func (s *ReviewService) meant(name string) (meaning, error) {
	if p := access.Permission(name); slices.Contains(access.Permissions, p) {
		m := meaning{permission: p}
		for _, row := range s.Methods {
			if row.Permission == p {
				m.methods = append(m.methods, row.short())
			}
		}
		return m, nil
	}
	var found []Method
	for _, row := range s.Methods {
		short := row.short()
		if strings.EqualFold(row.Procedure, name) || strings.EqualFold(short, name) || strings.EqualFold(short[strings.IndexByte(short, '/')+1:], name) {
			found = append(found, row)
		}
	}
	if len(found) == 0 {
		return meaning{}, s.unknown(name)
	}
	m := meaning{permission: found[0].Permission, public: found[0].Public}
	for _, row := range found {
		m.methods = append(m.methods, row.short())
		if row.Permission != m.permission {
			return meaning{}, reason.Errorf(reason.InvalidInput, "%q is a method of more than one service", name).
				WithRemedy("Name the service as well: %s.", strings.Join(shorts(found), " or "))
		}
	}
	return m, nil
}

func shorts(list []Method) []string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.short()
	}
	return out
}

func (s *ReviewService) unknown(name string) error {
	var names []string
	for _, p := range access.Permissions {
		names = append(names, string(p))
	}
	for _, short := range shorts(s.Methods) {
		names = append(names, short, short[strings.IndexByte(short, '/')+1:])
	}
	e := reason.Errorf(reason.InvalidInput, "there is no permission or method %q", name)
	if near := text.Nearest(name, names); near != "" {
		return e.WithRemedy("Did you mean %s?", near)
	}
	return e.WithRemedy("Name a permission, such as approval.decide, or a method, such as DecideApproval; docs/access.md lists them.")
}

// explain is the answer.
func (r *review) explain(m meaning) *palyrav1.ExplainAccessResponse {
	res := &palyrav1.ExplainAccessResponse{
		Principal: r.of.Principal.String(), Permission: string(m.permission), Methods: m.methods, Roles: roleNames(r.of.Roles),
		PolicyVersion: r.set.Version(), Notes: r.notes(),
	}
	if m.public {
		res.Allowed, res.Message = true, "anybody may, without a credential"
		return res
	}
	if why := r.barred(r.of); why != nil {
		res.Reason, res.Message, res.Remedy = string(why.Code), why.Message, r.wayBack()
		return res
	}
	j := r.authorize(r.of, m.permission)
	res.Allowed, res.Policies = j.Allowed, r.determining(j.Determining)
	if m.permission == access.PermApprovalDecide && j.Allowed {
		res.Notes = append(res.Notes, "Policy is asked again for each approval, by its severity and its requester; this is about approvals in general.")
	}
	if j.Allowed {
		res.Message = r.of.Principal.String() + " may " + string(m.permission)
		return res
	}
	err := r.set.Permit(policy.AccessRequest{Caller: caller(r.of), Permission: m.permission})
	why := reason.Known(err, reason.PermissionDenied)
	res.Reason, res.Message = string(why.Code), why.Message
	able := r.able(m.permission)
	if r.others {
		res.WhoMay = able
	}
	res.Remedy = r.remedy(m.permission, j, able)
	return res
}

// able are the other members who can use a permission now.
func (r *review) able(p access.Permission) []string {
	var out []string
	for _, m := range r.members {
		if m.Principal != r.of.Principal && !m.NoDevice && r.may(m, p) {
			out = append(out, m.Principal.String())
		}
	}
	return out
}
