package policy_test

import (
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
)

// A single user may approve their own calls. A member who cannot approve any call does not
// count as a second user.
func TestSoleUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		second  access.Member
		allowed bool
	}{
		"a user with the role of agents": {access.Member{Principal: access.User("bot"), Roles: []access.Role{access.RoleAgent}}, true},
		"a disabled operator":            {access.Member{Principal: access.User("eve"), Roles: []access.Role{access.RoleOperator}, Disabled: true}, true},
		"an operator without a device":   {access.Member{Principal: access.User("eve"), Roles: []access.Role{access.RoleOperator}, NoDevice: true}, true},
		"an auditor":                     {access.Member{Principal: access.User("eve"), Roles: []access.Role{access.RoleAuditor}}, true},
		"an operator":                    {access.Member{Principal: access.User("eve"), Roles: []access.Role{access.RoleOperator}}, false},
	} {
		set := policytest.Set(t, policytest.Options{Members: []access.Member{c.second}})
		caller := access.Caller{Principal: policytest.Alice, OnBehalfOf: policytest.Alice, Surface: access.SurfaceCLI, Roles: []access.Role{access.RoleOwner}}
		got := set.Access().Authorize(policy.AccessRequest{
			Caller: caller, Permission: access.PermApprovalDecide, Approval: &policy.ApprovalResource{Severity: "high", Requester: policytest.Alice},
		})
		if got.Allowed != c.allowed {
			t.Errorf("%s: allowed %t", name, got.Allowed)
		}
	}
}
