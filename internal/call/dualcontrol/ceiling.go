package dualcontrol

import (
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// ownerPermissions are the permissions that an owner has under every policy set. With them, an
// owner can always replace the set in force.
var ownerPermissions = []access.Permission{
	access.PermDaemonStatus, access.PermPolicyRead, access.PermPolicyCheck, access.PermPolicyActivate, access.PermGatewayThaw,
}

// voterPermissions are the permissions that owners and admins have under every policy set, for
// questions about the gateway.
var voterPermissions = []access.Permission{access.PermDaemonStatus, access.PermApprovalRead, access.PermApprovalDecide}

// Ceiling reports whether a caller has a permission that no policy can remove. Owners keep the
// permissions to put another policy set in force; owners and admins keep the permissions to answer
// that question. The caller must use a device of their own, and the gateway must admit the caller:
// a principal that allowed_principals excludes stays excluded.
func Ceiling(set *policy.Set, caller access.Caller, p access.Permission) bool {
	if caller.Token != nil || !caller.Paired || caller.Principal.Kind != access.KindUser || !set.Access().LetsIn(caller.Principal) {
		return false
	}
	owner := slices.Contains(caller.Roles, access.RoleOwner)
	voter := owner || slices.Contains(caller.Roles, access.RoleAdmin)
	return owner && slices.Contains(ownerPermissions, p) || voter && slices.Contains(voterPermissions, p)
}
