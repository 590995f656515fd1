package policy_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// A token has a permission only if its scopes, its holder and its creator have it. Control: the
// same caller without token bounds.
func TestTokenBounds(t *testing.T) {
	t.Parallel()
	auditor := access.User("eve")
	set := policytest.Set(t, policytest.Options{TwoUsers: true, Members: []access.Member{
		{Principal: auditor, Roles: []access.Role{access.RoleAuditor}},
		{Principal: access.User("gone"), Roles: []access.Role{access.RoleOwner}, Disabled: true},
	}})
	for name, c := range map[string]struct {
		who     access.Principal
		bounds  *access.TokenBounds
		want    bool
		message string
	}{
		"a device":                {policytest.Alice, nil, true, ""},
		"within its scopes":       {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: policytest.Alice}, true, ""},
		"no scope":                {policytest.Alice, &access.TokenBounds{Creator: policytest.Alice}, false, "not among the token's scopes"},
		"another scope":           {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermToolCall}, Creator: policytest.Alice}, false, "not among the token's scopes"},
		"the holder may not":      {policytest.Agent, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: policytest.Alice}, false, "may not journal.read"},
		"the creator may not":     {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: policytest.Agent}, false, "who made the token, may not"},
		"the creator is disabled": {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: access.User("gone")}, false, "who made the token, may not"},
		"the creator is gone":     {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: access.User("nobody")}, false, "who made the token, may not"},
		"another who may made it": {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{access.PermJournalRead}, Creator: auditor}, true, ""},
		"an unknown permission":   {policytest.Alice, &access.TokenBounds{Scopes: []access.Permission{"no.such"}, Creator: policytest.Alice}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			caller := access.Caller{Principal: c.who, OnBehalfOf: c.who, Surface: access.SurfaceGRPC, Token: c.bounds}
			err := set.Access().Permit(policy.AccessRequest{Caller: caller, Permission: access.PermJournalRead})
			if (err == nil) != c.want {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err != nil && (reason.Of(err) != reason.PermissionDenied || !strings.Contains(err.Error(), c.message)) {
				t.Errorf("%v", err)
			}
		})
	}
}
