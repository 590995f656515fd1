// Package changetable is the one table of which methods take a second person, for the
// API, which asks, and for clients, which wait and say so.
package changetable

import (
	"iter"
	"maps"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
)

// Row says of a method that changes the gateway whether it takes a second person.
type Row struct {
	// Kind is what it changes; "" for what one person does.
	Kind dualcontrol.Kind
	// Alone says why one person does it.
	Alone string
}

// Guarded are the permissions whose methods all have a row: what they allow could end
// dual control itself, or takes back what two people allowed.
var Guarded = []access.Permission{
	access.PermAccessWrite, access.PermAccessWriteOwner, access.PermPolicyActivate, access.PermGatewayThaw, access.PermUpstreamWrite,
	access.PermSkillWrite, access.PermNotifyWrite, access.PermWorkspaceUndo,
}

// table is the one that says which methods take a second person, by procedure.
var table = map[string]Row{
	palyrav1connect.AccessServiceAddMemberProcedure:     {Kind: dualcontrol.AddMember},
	palyrav1connect.AccessServiceUpdateMemberProcedure:  {Kind: dualcontrol.UpdateMember},
	palyrav1connect.AccessServiceEnableMemberProcedure:  {Kind: dualcontrol.EnableMember},
	palyrav1connect.AccessServiceRemoveMemberProcedure:  {Kind: dualcontrol.RemoveMember},
	palyrav1connect.AccessServiceConfirmMemberProcedure: {Kind: dualcontrol.ConfirmMember},
	// It takes the host's own device, gives nobody power, and what may be known to
	// somebody must be replaced at once.
	palyrav1connect.KeyServiceRotateKeyProcedure: {Alone: "only the gateway's own host replaces its keys, and a key that somebody may know has to go at once"},
	// It takes the host's uid, and takes power and gives none.
	palyrav1connect.PresenceServiceResetPresenceKeyProcedure: {Alone: "only the gateway's own host takes a presence key away, and everybody is told"},
	palyrav1connect.IdentityServiceAddDeviceProcedure:        {Kind: dualcontrol.AddDevice},
	palyrav1connect.PolicyServiceActivatePolicyProcedure:     {Kind: dualcontrol.ActivatePolicy},
	palyrav1connect.PolicyServiceReloadPolicyProcedure:       {Kind: dualcontrol.ReloadPolicy},
	palyrav1connect.StatusServiceThawProcedure:               {Kind: dualcontrol.Thaw},
	// To keep somebody out takes one person alone.
	palyrav1connect.AccessReviewServiceSetCeilingProcedure: {Kind: dualcontrol.LetIn},
	// What runs for calls, and what models are told of it.
	palyrav1connect.McpServiceAddUpstreamProcedure:     {Kind: dualcontrol.AddUpstream},
	palyrav1connect.McpServiceApproveUpstreamProcedure: {Kind: dualcontrol.ApproveUpstream},
	palyrav1connect.McpServiceUpdateUpstreamProcedure:  {Kind: dualcontrol.UpdateUpstream},

	// Code that runs for calls, and whose code that may be.
	palyrav1connect.SkillServiceInstallSkillProcedure:   {Kind: dualcontrol.InstallSkill},
	palyrav1connect.SkillServiceSetSkillStatusProcedure: {Kind: dualcontrol.EnableSkill},
	palyrav1connect.SkillServiceTrustPublisherProcedure: {Kind: dualcontrol.TrustPublisher},

	palyrav1connect.SkillServiceStageSkillProcedure:        {Alone: "it brings bytes that nothing runs before they are installed"},
	palyrav1connect.SkillServiceInspectSkillProcedure:      {Alone: "it looks at a package and installs nothing"},
	palyrav1connect.SkillServiceRemoveSkillProcedure:       {Alone: "it takes tools away and gives none"},
	palyrav1connect.SkillServiceDistrustPublisherProcedure: {Alone: "whoever sees that a key is somebody else's must not have to wait"},

	// While the gateway is frozen; else it is a call, which asks people as calls do.
	palyrav1connect.WorkspaceServiceUndoChangeSetProcedure: {Kind: dualcontrol.UndoChanges},

	palyrav1connect.NotifyServiceMapChatUserProcedure:   {Kind: dualcontrol.MapChatUser},
	palyrav1connect.NotifyServiceTestNotifyProcedure:    {Alone: "it sends words of the gateway's own to where the configuration says"},
	palyrav1connect.NotifyServiceUnmapChatUserProcedure: {Alone: "it takes a vote away and gives none"},

	palyrav1connect.McpServiceRemoveUpstreamProcedure:    {Alone: "it takes tools away and gives none"},
	palyrav1connect.McpServiceResolvePackageProcedure:    {Alone: "it looks at a registry and installs nothing; the installation is a call, and what runs it is added or updated"},
	palyrav1connect.McpServiceRefreshUpstreamProcedure:   {Alone: "it looks at a server that was let in already; what that says differently is approved by itself"},
	palyrav1connect.AccessServiceDisableMemberProcedure:  {Alone: "whoever sees that a member is somebody else's must not have to wait"},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure: {Alone: "a lost device is revoked by whoever knows of it, at once"},
	palyrav1connect.IdentityServiceRenameDeviceProcedure: {Alone: "a name is for people alone, and gives nobody anything"},
}

// Lookup returns the row of a method by its procedure; false when there is none.
func Lookup(procedure string) (Row, bool) {
	r, ok := table[procedure]
	return r, ok
}

// Rows are all, by procedure, in no order.
func Rows() iter.Seq2[string, Row] { return maps.All(table) }

// TakesTwo reports whether a method takes a second person where there are two, so that
// its answer may take as long as people do.
func TakesTwo(procedure string) bool { return table[procedure].Kind != "" }

// Headers of answers to changes: the approval that let a change through, and why one
// person's word was enough.
const (
	ApprovalHeader = "Palyra-Approval"
	AloneHeader    = "Palyra-Alone"
)

// WaitHeader with the value NoWait has a request for a change answered once its question is
// stored, with reason.ChangePending. Without it the answer comes when the change was made
// or has ended.
const (
	WaitHeader = "Palyra-Wait"
	NoWait     = "no"
)
