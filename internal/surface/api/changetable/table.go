// Package changetable is the table of the methods that need a second approver. The API uses it to
// request approval; clients use it to wait and to print a notice.
package changetable

import (
	"iter"
	"maps"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
)

// Row defines whether a method that changes the gateway needs a second approver.
type Row struct {
	// Kind is the kind of change; "" if one person is sufficient.
	Kind change.Kind
	// Alone is the reason why one person is sufficient.
	Alone string
}

// Guarded are the permissions whose methods must all have a row: they could disable dual
// control itself, or reverse a change that two people approved.
var Guarded = []access.Permission{
	access.PermAccessWrite, access.PermAccessWriteOwner, access.PermPolicyActivate, access.PermGatewayThaw, access.PermUpstreamWrite,
	access.PermSkillWrite, access.PermNotifyWrite, access.PermWorkspaceUndo,
}

// table has the methods that need a second approver, by procedure.
var table = map[string]Row{
	palyrav1connect.AccessServiceAddMemberProcedure:     {Kind: change.AddMember},
	palyrav1connect.AccessServiceUpdateMemberProcedure:  {Kind: change.UpdateMember},
	palyrav1connect.AccessServiceEnableMemberProcedure:  {Kind: change.EnableMember},
	palyrav1connect.AccessServiceRemoveMemberProcedure:  {Kind: change.RemoveMember},
	palyrav1connect.AccessServiceConfirmMemberProcedure: {Kind: change.ConfirmMember},
	// The method requires the host's own device and grants no permission. A compromised key must
	// be replaced at once.
	palyrav1connect.KeyServiceRotateKeyProcedure: {Alone: "only the gateway's own host replaces its keys, and a compromised key must be replaced at once"},
	// ConfirmMembers acts for the gateway's host. ResetPresenceKey requires the host's uid, and
	// only removes a key.
	palyrav1connect.PresenceServiceConfirmMembersProcedure:   {Alone: "it acts for the gateway's host, which dual control trusts to name independent people, and every owner is notified"},
	palyrav1connect.PresenceServiceResetPresenceKeyProcedure: {Alone: "only the gateway's own host removes a presence key, and all members are notified"},
	palyrav1connect.IdentityServiceAddDeviceProcedure:        {Kind: change.AddDevice},
	palyrav1connect.PolicyServiceActivatePolicyProcedure:     {Kind: change.ActivatePolicy},
	palyrav1connect.PolicyServiceReloadPolicyProcedure:       {Kind: change.ReloadPolicy},
	palyrav1connect.StatusServiceThawProcedure:               {Kind: change.Thaw},
	// One person is sufficient to deny access.
	palyrav1connect.AccessReviewServiceSetCeilingProcedure: {Kind: change.LetIn},
	// Programs that run for calls, and the descriptions that models receive.
	palyrav1connect.McpServiceAddUpstreamProcedure:     {Kind: change.AddUpstream},
	palyrav1connect.McpServiceApproveUpstreamProcedure: {Kind: change.ApproveUpstream},
	palyrav1connect.McpServiceUpdateUpstreamProcedure:  {Kind: change.UpdateUpstream},

	// Code that runs for calls, and its trusted publishers.
	palyrav1connect.SkillServiceInstallSkillProcedure:   {Kind: change.InstallSkill},
	palyrav1connect.SkillServiceSetSkillStatusProcedure: {Kind: change.EnableSkill},
	palyrav1connect.SkillServiceTrustPublisherProcedure: {Kind: change.TrustPublisher},

	palyrav1connect.SkillServiceStageSkillProcedure:        {Alone: "it uploads bytes that do not run before they are installed"},
	palyrav1connect.SkillServiceInspectSkillProcedure:      {Alone: "it inspects a package and installs nothing"},
	palyrav1connect.SkillServiceRemoveSkillProcedure:       {Alone: "it only removes tools"},
	palyrav1connect.SkillServiceDistrustPublisherProcedure: {Alone: "a compromised key must be distrusted at once"},

	// A change set is undone by a change only while the gateway is frozen. Otherwise the undo is a
	// call, with the approvals of calls.
	palyrav1connect.WorkspaceServiceUndoChangeSetProcedure: {Kind: change.UndoChanges},

	palyrav1connect.NotifyServiceMapChatUserProcedure:   {Kind: change.MapChatUser},
	palyrav1connect.NotifyServiceTestNotifyProcedure:    {Alone: "it sends a fixed message to a configured target"},
	palyrav1connect.NotifyServiceUnmapChatUserProcedure: {Alone: "it only removes a vote"},

	palyrav1connect.McpServiceRemoveUpstreamProcedure:    {Alone: "it only removes tools"},
	palyrav1connect.McpServiceResolvePackageProcedure:    {Alone: "it queries a registry and installs nothing; the installation is a call, and the server that runs it is added or updated"},
	palyrav1connect.McpServiceRefreshUpstreamProcedure:   {Alone: "it queries a server that is already approved; changed definitions need their own approval"},
	palyrav1connect.AccessServiceDisableMemberProcedure:  {Alone: "a compromised member must be disabled at once"},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure: {Alone: "a lost device must be revoked at once"},
	palyrav1connect.IdentityServiceRenameDeviceProcedure: {Alone: "a name is only displayed and grants nothing"},
}

// Lookup returns the row of a method by its procedure; false if it has none.
func Lookup(procedure string) (Row, bool) {
	r, ok := table[procedure]
	return r, ok
}

// Rows returns all rows by procedure, in no particular order.
func Rows() iter.Seq2[string, Row] { return maps.All(table) }

// TakesTwo reports whether a method needs a second approver if one exists, so that its response can
// take as long as the approval.
func TakesTwo(procedure string) bool { return table[procedure].Kind != "" }

// Response headers of changes: the approval of a change, or the reason why one person was
// sufficient.
const (
	ApprovalHeader = "Palyra-Approval"
	AloneHeader    = "Palyra-Alone"
)

// WaitHeader with the value NoWait makes a request for a change return as soon as its approval
// is stored, with reason.ChangePending. Without it, the response follows after the change is
// made or the approval has ended.
const (
	WaitHeader = "Palyra-Wait"
	NoWait     = "no"
)
