package dualcontrol

import (
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// Kind is one kind of change that takes two people.
type Kind string

// The kinds, which are all. What takes power away at once is not among them, so that
// whoever is attacked needs nobody: freezing, revoking a device, disabling a member,
// and ending, cancelling or denying whatever it is.
const (
	AddMember       Kind = "member.add"
	UpdateMember    Kind = "member.update"
	EnableMember    Kind = "member.enable"
	RemoveMember    Kind = "member.remove"
	ConfirmMember   Kind = "member.confirm"
	AddDevice       Kind = "device.add"
	ActivatePolicy  Kind = "policy.activate"
	ReloadPolicy    Kind = "policy.reload"
	LetIn           Kind = "ceiling.allow"
	Thaw            Kind = "gateway.thaw"
	AddUpstream     Kind = "upstream.add"
	ApproveUpstream Kind = "upstream.approve"
	UpdateUpstream  Kind = "upstream.update"
	InstallSkill    Kind = "skill.install"
	EnableSkill     Kind = "skill.enable"
	TrustPublisher  Kind = "publisher.trust"
	MapChatUser     Kind = "chat_user.map"
	// UndoChanges is of what was committed to a workspace, while the gateway is frozen.
	// Else it is a call.
	UndoChanges Kind = "workspace.undo"
	// Erase is of what the journal points to; nothing does that yet.
	Erase Kind = "journal.erase"
)

// Kinds lists them.
var Kinds = []Kind{AddMember, UpdateMember, EnableMember, RemoveMember, ConfirmMember, AddDevice, ActivatePolicy, ReloadPolicy, LetIn, Thaw, AddUpstream, ApproveUpstream, UpdateUpstream, InstallSkill, EnableSkill, TrustPublisher, MapChatUser, UndoChanges, Erase}

// byOwners are permissions that an owner has whatever policies say, so that no set of
// them is in force for good.
var byOwners = []access.Permission{
	access.PermDaemonStatus, access.PermPolicyRead, access.PermPolicyCheck, access.PermPolicyActivate, access.PermGatewayThaw,
}

// byVoters are those that owners and admins have for questions about the gateway,
// whatever policies say.
var byVoters = []access.Permission{access.PermDaemonStatus, access.PermApprovalRead, access.PermApprovalDecide}

// Ceiling reports whether a caller has a permission that no policy takes: what an
// owner needs to put another policy in force, and what owners and admins need to
// answer that. It takes a device of their own, and that the gateway lets them in: what
// allowed_principals leaves out stays out.
func Ceiling(set *policy.Set, caller access.Caller, p access.Permission) bool {
	if caller.Token != nil || !caller.Paired || caller.Principal.Kind != access.KindUser || !set.LetsIn(caller.Principal) {
		return false
	}
	owner := slices.Contains(caller.Roles, access.RoleOwner)
	voter := owner || slices.Contains(caller.Roles, access.RoleAdmin)
	return owner && slices.Contains(byOwners, p) || voter && slices.Contains(byVoters, p)
}
