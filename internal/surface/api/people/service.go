// Package people has the services about members and their devices: permissions and their reasons
// (AccessReviewService), devices (DeviceService), pairing (PairingService), logins (LoginService)
// and console sessions (ConsoleService). It makes no access decisions: it evaluates the policies in
// force in the same way as the guard of the API.
package people

import (
	"context"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// Method is a row of the access table.
type Method struct {
	// Procedure is a path such as "/palyra.v1.ApprovalsService/DecideApproval".
	Procedure string
	// Permission is "" for a method that requires none.
	Permission access.Permission
	// Public is true for a method that requires no credential.
	Public bool
}

// Tools are the tools of the gateway.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Unusable returns the reason why no call of a tool can run, or nil.
	Unusable(name string) error
}

// ReviewService is the AccessReviewService. All fields are required.
type ReviewService struct {
	Engine  *policy.Engine
	Members Members
	Tools   Tools
	// Ceilings has the principals and channels that policies may admit.
	Ceilings Ceilings
	// Methods are the rows of the access table, ordered by procedure.
	Methods []Method
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// review is one question: the member, the policy set, and the permissions of the caller.
type review struct {
	set     *policy.Set
	members []access.Member
	of      access.Member
	// others is true if the caller may read members; why is true if the caller may read policies.
	others, why bool
}

// begin finds the member of a question. A caller who may ask only about itself gets the same error
// whether the member exists or not.
func (s *ReviewService) begin(ctx context.Context, name string) (*review, error) {
	caller := s.Caller(ctx)
	r := &review{set: s.Engine.Current(), members: s.Members.List()}
	ask := func(p access.Permission) error {
		return r.set.Access().Permit(policy.AccessRequest{Caller: caller, Permission: p})
	}
	refused := ask(access.PermAccessRead)
	r.others, r.why = refused == nil, ask(access.PermPolicyExplain) == nil
	found, known := memberNamed(r.members, name)
	if !r.others && !(known && owns(caller.Principal, found)) {
		return nil, reason.Known(refused, reason.PermissionDenied).
			WithRemedy("Ask about yourself or an agent of yours. For other members, ask a member with access.read.")
	}
	if !known {
		return nil, reason.Errorf(reason.NotFound, "the member %s does not exist", name).WithRemedy("See `palyra members list --all`.")
	}
	r.of = found
	return r, nil
}

// owns reports whether m is p or an agent of p.
func owns(p access.Principal, m access.Member) bool {
	return m.Principal == p || !m.Owner.IsZero() && m.Owner == p
}

// memberNamed finds a member by its principal or by its name. A user has priority over an agent of
// the same name.
func memberNamed(members []access.Member, name string) (access.Member, bool) {
	for _, p := range []string{name, access.User(name).String(), access.Agent(name).String()} {
		if i := slices.IndexFunc(members, func(m access.Member) bool { return m.Principal.String() == p }); i >= 0 {
			return members[i], true
		}
	}
	return access.Member{}, false
}

// caller returns the caller for a member with the certificate of its device.
func caller(m access.Member) access.Caller {
	c := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, Surface: access.SurfaceGRPC, Paired: true}
	if m.Principal.Kind == access.KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c
}

// authorize evaluates the set in force for a member.
func (r *review) authorize(m access.Member, p access.Permission) policy.Judgement {
	return r.set.Access().Authorize(policy.AccessRequest{Caller: caller(m), Permission: p})
}

// may reports whether a member can use a permission now: the member is not barred, and policies
// permit the use.
func (r *review) may(m access.Member, p access.Permission) bool {
	return r.refusedBecause(m) == nil && r.authorize(m, p).Allowed
}

// refusedBecause returns the reason why all credentials of a member are refused, or nil.
func (r *review) refusedBecause(m access.Member) *reason.Error {
	switch {
	case m.Removed():
		return reason.Errorf(reason.Unauthenticated, "%s was removed, and cannot be added again", m.Principal)
	case m.Disabled:
		return reason.Errorf(reason.Unauthenticated, "%s is disabled", m.Principal)
	case m.Principal.Kind != access.KindAgent:
		return nil
	}
	switch owner, known := memberNamed(r.members, m.Owner.String()); {
	case !known || owner.Removed():
		return reason.Errorf(reason.Unauthenticated, "%s has no owner to act for", m.Principal)
	case owner.Disabled:
		return reason.Errorf(reason.Unauthenticated, "%s acts for %s, who is disabled", m.Principal, m.Owner)
	}
	if m.AwaitsConsent {
		return m.Waiting()
	}
	return nil
}

// determining returns the policies of an answer, if the caller may read policies.
func (r *review) determining(list []policy.Determining) []*palyrav1.Determining {
	if !r.why {
		return nil
	}
	out := make([]*palyrav1.Determining, len(list))
	for i, d := range list {
		out[i] = &palyrav1.Determining{PolicyId: d.ID, File: d.File, Line: int32(d.Line), Effect: d.Effect, Reason: d.Reason, Remedy: d.Remedy}
	}
	return out
}

// notes returns the facts that affect every answer about the member.
func (r *review) notes() []string {
	var list []string
	if r.ceilingRemedy() != "" {
		list = append(list, "A ceiling excludes "+r.of.Principal.String()+", and overrides all policies. "+r.ceilingRemedy())
	}
	if r.of.NoDevice && !r.of.Removed() {
		list = append(list, r.of.Principal.String()+" has no device, and can act only with a device or a token. Create a device with `palyrad operator bundle "+r.of.Principal.Name+"` on the gateway's host.")
	}
	if channels := r.set.View().Config().Snapshot.AllowedChannels; r.others && len(channels) > 0 {
		list = append(list, "Calls may come from the messaging channels "+strings.Join(channels, ", ")+".")
	}
	return list
}

func roleNames(roles []access.Role) []string {
	out := make([]string, len(roles))
	for i, role := range roles {
		out[i] = string(role)
	}
	return out
}

// short returns the name in the form "ApprovalsService/DecideApproval".
func (m Method) short() string {
	service, method, _ := strings.Cut(strings.TrimPrefix(m.Procedure, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
