// Package people has the services about members and their devices: who may do what and why
// (AccessReviewService), devices (DeviceService), pairing (PairingService), logins
// (LoginService) and sessions of the console (ConsoleService). It decides nothing: answers
// about access are those of the policies in force, asked as the guard of the API asks them.
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
	// Procedure is "/palyra.v1.ApprovalsService/DecideApproval".
	Procedure string
	// Permission is "" for a method that needs none.
	Permission access.Permission
	// Public says that it takes no credential.
	Public bool
}

// Tools are those that the gateway has.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Unusable says why no call of a tool can run, nil when one can.
	Unusable(name string) error
}

// ReviewService is the AccessReviewService. All fields are required.
type ReviewService struct {
	Engine  *policy.Engine
	Members Members
	Tools   Tools
	// Ceilings are whom policies may let in at all.
	Ceilings Ceilings
	// Methods are the rows, ordered by procedure.
	Methods []Method
	// Caller is who asks.
	Caller func(context.Context) access.Caller
}

// review is one question: about whom, by which set, and what its asker may see.
type review struct {
	set     *policy.Set
	members []access.Member
	of      access.Member
	// others says that the asker may read who the members are, and why that it may
	// read which policies decide.
	others, why bool
}

// begin finds whom a question is about. Who may not ask about others gets the same
// answer whether there is such a member or not.
func (s *ReviewService) begin(ctx context.Context, name string) (*review, error) {
	caller := s.Caller(ctx)
	r := &review{set: s.Engine.Current(), members: s.Members.List()}
	ask := func(p access.Permission) error {
		return r.set.Permit(policy.AccessRequest{Caller: caller, Permission: p})
	}
	refused := ask(access.PermAccessRead)
	r.others, r.why = refused == nil, ask(access.PermPolicyExplain) == nil
	found, known := memberNamed(r.members, name)
	if !r.others && !(known && owns(caller.Principal, found)) {
		return nil, reason.Known(refused, reason.PermissionDenied).
			WithRemedy("Ask about yourself or an agent of yours; about others, ask somebody with access.read.")
	}
	if !known {
		return nil, reason.Errorf(reason.NotFound, "there is no member %s", name).WithRemedy("See `palyra members list --all`.")
	}
	r.of = found
	return r, nil
}

// owns reports whether m is p or an agent of p.
func owns(p access.Principal, m access.Member) bool {
	return m.Principal == p || !m.Owner.IsZero() && m.Owner == p
}

// memberNamed finds a member by its principal, or by its name: the user, or the agent
// where there is no such user.
func memberNamed(members []access.Member, name string) (access.Member, bool) {
	for _, p := range []string{name, access.User(name).String(), access.Agent(name).String()} {
		if i := slices.IndexFunc(members, func(m access.Member) bool { return m.Principal.String() == p }); i >= 0 {
			return members[i], true
		}
	}
	return access.Member{}, false
}

// caller is a member as it comes in with the certificate of its device.
func caller(m access.Member) access.Caller {
	c := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, Surface: access.SurfaceGRPC, Paired: true}
	if m.Principal.Kind == access.KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c
}

// authorize asks the set in force about a member.
func (r *review) authorize(m access.Member, p access.Permission) policy.Judgement {
	return r.set.Authorize(policy.AccessRequest{Caller: caller(m), Permission: p})
}

// may reports whether a member can use a permission now: it may act, and has it.
func (r *review) may(m access.Member, p access.Permission) bool {
	return r.barred(m) == nil && r.authorize(m, p).Allowed
}

// barred says why the credentials of a member are refused whatever they are for,
// nil when they are not.
func (r *review) barred(m access.Member) *reason.Error {
	switch {
	case m.Removed():
		return reason.Errorf(reason.Unauthenticated, "%s was removed, which is for good", m.Principal)
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

// determining are the policies of an answer, if the asker may read them.
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

// notes are what bears on every answer about the member.
func (r *review) notes() []string {
	var list []string
	if r.lifting() != "" {
		list = append(list, "A ceiling keeps "+r.of.Principal.String()+" out, whatever policies say. "+r.lifting())
	}
	if r.of.NoDevice && !r.of.Removed() {
		list = append(list, r.of.Principal.String()+" has no device: until it has one, or a token, nobody can act as it. `palyrad operator bundle "+r.of.Principal.Name+"` on the gateway's host makes one.")
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

// short is "ApprovalsService/DecideApproval".
func (m Method) short() string {
	service, method, _ := strings.Cut(strings.TrimPrefix(m.Procedure, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "/" + method
}
