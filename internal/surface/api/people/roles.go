package people

import (
	"context"
	"fmt"
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// ListRoles lists the roles with their permissions.
func (s *ReviewService) ListRoles(context.Context, *palyrav1.ListRolesRequest) (*palyrav1.ListRolesResponse, error) {
	set := s.Engine.Current()
	powers := powersOf(set)
	res := &palyrav1.ListRolesResponse{}
	for _, role := range set.View().Roles() {
		m := &palyrav1.Role{Role: string(role), Builtin: slices.Contains(access.BuiltinRoles, role)}
		for _, p := range powers[role] {
			m.Permissions = append(m.Permissions, string(p))
		}
		for _, member := range s.Members.List() {
			if !member.Removed() && slices.Contains(member.Roles, role) {
				m.Members = append(m.Members, member.Principal.String())
			}
		}
		res.Roles = append(res.Roles, m)
	}
	return res, nil
}

// powersOf returns the permissions that each role grants by itself. Policies decide about members,
// not roles, so the set is evaluated with one example member for each role.
func powersOf(set *policy.Set) map[access.Role][]access.Permission {
	view := set.View()
	with := exampleConfig{view.Config()}
	examples := map[access.Role]access.Member{}
	owner := with.join(access.User, access.Principal{})
	for _, role := range view.Roles() {
		if role.For(access.KindUser) {
			examples[role] = with.join(access.User, access.Principal{}, role)
		} else {
			examples[role] = with.join(access.Agent, owner.Principal, role)
		}
	}
	var requests []policy.AccessRequest
	var holds []access.Role
	for role, m := range examples {
		for _, p := range access.Permissions {
			requests, holds = append(requests, policy.AccessRequest{Caller: caller(m), Permission: p}), append(holds, role)
		}
	}
	powers := map[access.Role][]access.Permission{}
	for i, j := range view.TryAccess(&policy.Change{Config: with.Config}, requests...) {
		if j.Allowed {
			powers[holds[i]] = append(powers[holds[i]], requests[i].Permission)
		}
	}
	return powers
}

// exampleConfig is a configuration with example members.
type exampleConfig struct{ policy.Config }

// join adds a member with an unused name.
func (c *exampleConfig) join(kind func(string) access.Principal, owner access.Principal, roles ...access.Role) access.Member {
	m := access.Member{Owner: owner, Roles: roles}
	for i, taken := 0, true; taken; i++ {
		m.Principal = kind(fmt.Sprintf("example-%d", i))
		_, taken = c.Member(m.Principal)
	}
	c.Members = append(slices.Clone(c.Members), m)
	if allowed := c.Snapshot.AllowedPrincipals; allowed != nil {
		c.Snapshot.AllowedPrincipals = append(slices.Clone(allowed), m.Principal)
	}
	return m
}
