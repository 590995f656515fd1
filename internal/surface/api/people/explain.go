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

// ExplainAccess reports whether a member has a permission, and why.
func (s *ReviewService) ExplainAccess(ctx context.Context, req *palyrav1.ExplainAccessRequest) (*palyrav1.ExplainAccessResponse, error) {
	r, err := s.begin(ctx, req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	resolved, err := s.resolve(req.GetMethod())
	if err != nil {
		return nil, err
	}
	return r.explain(resolved), nil
}

// meaning is the permission that a name identifies, with its methods.
type meaning struct {
	permission access.Permission
	methods    []string
	public     bool
}

// resolve resolves the name of a permission or of a method.
func (s *ReviewService) resolve(name string) (meaning, error) {
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
			return meaning{}, reason.Errorf(reason.InvalidInput, "%q is a method of several services", name).
				WithRemedy("Include the service: %s.", strings.Join(shorts(found), " or "))
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
	e := reason.Errorf(reason.InvalidInput, "%q is not a permission or method", name)
	if near := text.Nearest(name, names); near != "" {
		return e.WithRemedy("Did you mean %s?", near)
	}
	return e.WithRemedy("Name a permission, such as approval.decide, or a method, such as DecideApproval; docs/reference/access.md lists them.")
}

// explain returns the answer for one permission.
func (r *review) explain(m meaning) *palyrav1.ExplainAccessResponse {
	res := &palyrav1.ExplainAccessResponse{
		Principal: r.of.Principal.String(), Permission: string(m.permission), Methods: m.methods, Roles: roleNames(r.of.Roles),
		PolicyVersion: r.set.Version(), Notes: r.notes(),
	}
	if m.public {
		res.Allowed, res.Message = true, "every caller may, without a credential"
		return res
	}
	if why := r.refusedBecause(r.of); why != nil {
		res.Reason, res.Message, res.Remedy = string(why.Code), why.Message, r.reactivation()
		return res
	}
	j := r.authorize(r.of, m.permission)
	res.Allowed, res.Policies = j.Allowed, r.determining(j.Determining)
	if m.permission == access.PermApprovalDecide && j.Allowed {
		res.Notes = append(res.Notes, "This result is about approvals in general. Policy decides again for each approval, by its severity and its requester.")
	}
	if j.Allowed {
		res.Message = r.of.Principal.String() + " may " + string(m.permission)
		return res
	}
	err := r.set.Access().Permit(policy.AccessRequest{Caller: caller(r.of), Permission: m.permission})
	why := reason.Known(err, reason.PermissionDenied)
	res.Reason, res.Message = string(why.Code), why.Message
	able := r.membersWith(m.permission)
	if r.others {
		res.WhoMay = able
	}
	res.Remedy = r.remedy(m.permission, j, able)
	return res
}

// membersWith returns the other members who can use a permission now.
func (r *review) membersWith(p access.Permission) []string {
	var out []string
	for _, m := range r.members {
		if m.Principal != r.of.Principal && !m.NoDevice && r.may(m, p) {
			out = append(out, m.Principal.String())
		}
	}
	return out
}
