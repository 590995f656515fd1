package api

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"palyra/gen/grpc/health/v1/healthv1connect"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/identity/login/resource"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/console"
)

// Audit selects the journal entry of a method.
type Audit string

// The audit kinds. Refusals are journaled for every kind.
const (
	// AuditNone is for reads: a successful read is not journaled.
	AuditNone Audit = "none"
	// AuditRoom is for changes that the package behind the method journals, in the transaction that
	// makes them.
	AuditRoom Audit = "room"
	// AuditExport is for bulk reads: the journal records the caller and the exported data set.
	AuditExport Audit = "export"
)

// The limit classes; the configuration has a bucket for each.
const (
	LimitRead     limit.Class = "read"
	LimitMutate   limit.Class = "mutate"
	LimitDecide   limit.Class = "decide"
	LimitToolCall limit.Class = "tool_call"
	LimitRun      limit.Class = "run"
	LimitSecret   limit.Class = "secret"
	LimitPairing  limit.Class = "pairing"
	LimitLogin    limit.Class = "login"
)

// Proof is the credential that a method requires, from the strongest to the weakest.
type Proof int

// The proofs.
const (
	// NeedsCertificate requires a valid device certificate. It is for methods that certify keys: a
	// caller without a certificate cannot issue one.
	NeedsCertificate Proof = iota
	// NeedsDevice also accepts the socket of the local operator, a token, and a console session.
	NeedsDevice
	// NeedsProgram accepts the same as NeedsDevice except console sessions. It is for methods that
	// lead to other credentials or keys, that no page needs, or that concern the caller's machine.
	NeedsProgram
	// NeedsHost accepts root over the socket of the local operator, and every credential that
	// NeedsProgram accepts. The handler decides which of these callers acts for the gateway's
	// host.
	NeedsHost
	// NeedsRenewable requires a certificate that is valid or expired at most ca.RenewableFor ago.
	NeedsRenewable
	// NeedsSignature is for routes whose requests are signed, independent of the sender. The
	// handler verifies the signature first, and counts a request without a valid one with
	// CountAgain. A flood of unsigned requests therefore does not block signed ones.
	NeedsSignature
	// NeedsNothing is for methods that return no caller's data.
	NeedsNothing
)

// Method is one row of the access table.
type Method struct {
	// Permission is the Cedar action that the caller needs. The handler may require more for
	// particular resources.
	Permission access.Permission
	Audit      Audit
	Limit      limit.Class
	// Needs is the credential that the caller must present.
	Needs Proof
}

// Lookup returns the row of a method by its procedure; false if it has none.
func Lookup(procedure string) (Method, bool) {
	m, ok := methods[procedure]
	return m, ok
}

// Methods returns the rows by procedure, in no particular order.
func Methods() iter.Seq2[string, Method] { return maps.All(methods) }

// reviewed returns the rows for access reviews, ordered by procedure.
func reviewed() []people.Method {
	list := make([]people.Method, 0, len(methods))
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		m := methods[procedure]
		list = append(list, people.Method{Procedure: procedure, Permission: m.Permission, Public: m.Needs == NeedsNothing})
	}
	return list
}

// withheld returns the methods that console sessions may not use, as "Service/Method".
func withheld() (list []string) {
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		if name, own := strings.CutPrefix(procedure, "/palyra.v1."); own && methods[procedure].Needs != NeedsDevice {
			list = append(list, name)
		}
	}
	return list
}

// methods has one row per method of the API. A method without a row is denied. A test walks the
// service descriptors and fails if one has no row.
var methods = map[string]Method{
	palyrav1connect.GatewayServiceCallToolProcedure:     {access.PermToolCall, AuditRoom, LimitToolCall, NeedsProgram},
	palyrav1connect.GatewayServiceListToolsProcedure:    {access.PermToolList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceEvaluateToolProcedure: {access.PermToolEvaluate, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceEndSessionProcedure:   {access.PermToolCall, AuditRoom, LimitMutate, NeedsProgram},

	// The handler decides which runs of other callers are readable and cancellable.
	palyrav1connect.GatewayServiceRunStreamProcedure: {access.PermRunStart, AuditRoom, LimitRun, NeedsProgram},
	palyrav1connect.GatewayServiceStartRunProcedure:  {access.PermRunStart, AuditRoom, LimitRun, NeedsDevice},
	palyrav1connect.GatewayServiceGetRunProcedure:    {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceListRunsProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceWatchRunProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	// This row also applies to a user's message on an open stream.
	palyrav1connect.GatewayServiceSendRunMessageProcedure: {access.PermRunStart, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.GatewayServiceCancelRunProcedure:      {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	// As for runs, the handler decides which calls of other callers are visible and cancellable.
	palyrav1connect.GatewayServiceListCallsProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceGetCallProcedure:    {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceCancelCallProcedure: {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.ApprovalsServiceListApprovalsProcedure:  {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceGetApprovalProcedure:    {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceWatchApprovalsProcedure: {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure: {access.PermApprovalDecide, AuditRoom, LimitDecide, NeedsDevice},
	palyrav1connect.ApprovalsServiceEditApprovalProcedure:   {access.PermApprovalDecide, AuditRoom, LimitDecide, NeedsDevice},
	// All requesters and approvers may call tools; the desk decides who may withdraw an approval.
	palyrav1connect.ApprovalsServiceCancelApprovalProcedure:  {access.PermToolCall, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.ApprovalsServiceExportApprovalsProcedure: {access.PermApprovalExport, AuditExport, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceListGrantsProcedure:      {access.PermGrantRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceRevokeGrantProcedure:     {access.PermGrantRevoke, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.PolicyServiceValidatePolicyProcedure: {access.PermPolicyCheck, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceGetPolicyProcedure:      {access.PermPolicyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceReloadPolicyProcedure:   {access.PermPolicyActivate, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PolicyServiceGetSnapshotProcedure:    {access.PermPolicySnapshot, AuditNone, LimitRead, NeedsDevice},

	palyrav1connect.PolicyServiceExplainPolicyProcedure:      {access.PermPolicyExplain, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceSimulatePolicyProcedure:     {access.PermPolicySimulate, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceTestPolicyProcedure:         {access.PermPolicyTest, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceListPolicyVersionsProcedure: {access.PermPolicyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PolicyServiceActivatePolicyProcedure:     {access.PermPolicyActivate, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.JournalServiceListEventsProcedure:    {access.PermJournalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.JournalServiceTailEventsProcedure:    {access.PermJournalTail, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.JournalServiceGetEventProcedure:      {access.PermJournalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.JournalServiceGetCheckpointProcedure: {access.PermJournalProve, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.JournalServiceProveEventProcedure:    {access.PermJournalProve, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.JournalServiceExportJournalProcedure: {access.PermJournalExport, AuditExport, LimitRead, NeedsDevice},

	palyrav1connect.AttestationServiceGetAttestationProcedure:   {access.PermAttestationRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AttestationServiceListAttestationsProcedure: {access.PermAttestationRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AttestationServiceGetKeySetProcedure:        {access.PermAttestationVerify, AuditNone, LimitRead, NeedsDevice},

	palyrav1connect.StatusServiceGetStatusProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.StatusServiceFreezeProcedure:    {access.PermGatewayFreeze, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.StatusServiceThawProcedure:      {access.PermGatewayThaw, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.AccessServiceAddMemberProcedure:   {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsCertificate},
	palyrav1connect.AccessServiceListMembersProcedure: {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	// A change that concerns owners or admins also needs access.write_owner, which the handler
	// checks.
	palyrav1connect.AccessServiceUpdateMemberProcedure:  {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceConfirmMemberProcedure: {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	// Package identity requires that the caller is the agent's owner and uses a device.
	palyrav1connect.AccessServiceConsentToAgentProcedure:     {access.PermAccessConsent, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceDisableMemberProcedure:      {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceEnableMemberProcedure:       {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceRemoveMemberProcedure:       {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.IdentityServiceListDevicesProcedure:      {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.IdentityServiceRenewCertificateProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsRenewable},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:     {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.IdentityServiceRenameDeviceProcedure:     {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	// Package identity requires the device of the gateway's own host.
	palyrav1connect.IdentityServiceAddDeviceProcedure: {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsCertificate},

	// Devices of other members need access.read, which the handler checks.
	palyrav1connect.DeviceServiceGetDeviceProcedure:      {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.DeviceServiceListDeviceActsProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	// The handler requires the device of the gateway's own host.
	palyrav1connect.KeyServiceListKeysProcedure:  {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.KeyServiceRotateKeyProcedure: {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsProgram},

	// A presence key belongs to its device. The handler checks who may confirm it, and that only
	// the gateway's host removes one.
	palyrav1connect.PresenceServiceChallengePresenceProcedure:   {access.PermDaemonStatus, AuditNone, LimitDecide, NeedsCertificate},
	palyrav1connect.PresenceServiceRegisterPresenceKeyProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsCertificate},
	palyrav1connect.PresenceServiceConfirmPresenceKeyProcedure:  {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceResetPresenceKeyProcedure:    {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsProgram},
	palyrav1connect.PresenceServiceConfirmMembersProcedure:      {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsHost},

	// A passkey belongs to its member. The handler checks who may confirm or remove it, and
	// requires access.read for the passkeys of others.
	palyrav1connect.PresenceServiceBeginPasskeyEnrolmentProcedure:  {access.PermDaemonStatus, AuditNone, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceFinishPasskeyEnrolmentProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceConfirmPasskeyProcedure:         {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceRemovePasskeyProcedure:          {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceListPasskeysProcedure:           {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PresenceServiceChallengePasskeyProcedure:       {access.PermDaemonStatus, AuditNone, LimitDecide, NeedsDevice},

	palyrav1connect.WorkspaceServiceListWorkspacesProcedure: {access.PermWorkspaceRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.WorkspaceServiceListChangeSetsProcedure: {access.PermWorkspaceRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.WorkspaceServiceGetChangeSetProcedure:   {access.PermWorkspaceRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.WorkspaceServiceUndoChangeSetProcedure:  {access.PermWorkspaceUndo, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.McpServiceListUpstreamsProcedure:         {access.PermUpstreamRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.McpServiceGetUpstreamProcedure:           {access.PermUpstreamRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.McpServiceAddUpstreamProcedure:           {access.PermUpstreamWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceRemoveUpstreamProcedure:        {access.PermUpstreamWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceRefreshUpstreamProcedure:       {access.PermUpstreamWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceApproveUpstreamProcedure:       {access.PermUpstreamWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceResolvePackageProcedure:        {access.PermUpstreamWrite, AuditNone, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceUpdateUpstreamProcedure:        {access.PermUpstreamWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.McpServiceBeginUpstreamLoginProcedure:    {access.PermUpstreamLogin, AuditNone, LimitMutate, NeedsProgram},
	palyrav1connect.McpServiceCompleteUpstreamLoginProcedure: {access.PermUpstreamLogin, AuditRoom, LimitMutate, NeedsProgram},
	palyrav1connect.McpServiceEndUpstreamLoginProcedure:      {access.PermUpstreamLogin, AuditRoom, LimitMutate, NeedsDevice},

	// A package has up to 64 parts, more than the burst of the mutate limit.
	palyrav1connect.SkillServiceStageSkillProcedure:        {access.PermSkillWrite, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SkillServiceInspectSkillProcedure:      {access.PermSkillWrite, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SkillServiceInstallSkillProcedure:      {access.PermSkillWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.SkillServiceListSkillsProcedure:        {access.PermSkillRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SkillServiceGetSkillProcedure:          {access.PermSkillRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SkillServiceSetSkillStatusProcedure:    {access.PermSkillWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.SkillServiceRemoveSkillProcedure:       {access.PermSkillWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.SkillServiceListPublishersProcedure:    {access.PermSkillRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SkillServiceTrustPublisherProcedure:    {access.PermSkillWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.SkillServiceDistrustPublisherProcedure: {access.PermSkillWrite, AuditRoom, LimitMutate, NeedsDevice},

	// Sessions are for users alone. The handler decides which sessions of other callers are
	// readable and can be ended. They have no permissions of their own, because new actions would
	// change the policy schema and the digest of every snapshot. Earlier decisions could then not
	// be explained.
	palyrav1connect.SessionServiceListSessionsProcedure: {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SessionServiceGetSessionProcedure:   {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SessionServiceEndSessionProcedure:   {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	// The handler decides which tokens of other callers are visible and revocable, and requires
	// that the caller has each scope that it grants.
	palyrav1connect.TokenServiceCreateTokenProcedure: {access.PermTokenCreate, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.TokenServiceListTokensProcedure:  {access.PermTokenRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.TokenServiceRevokeTokenProcedure: {access.PermTokenRevoke, AuditRoom, LimitMutate, NeedsDevice},

	// A caller that may create the token of a hook may also have the hook monitored.
	palyrav1connect.InstallServiceRegisterInstalledProcedure: {access.PermTokenCreate, AuditRoom, LimitMutate, NeedsProgram},
	palyrav1connect.InstallServiceListInstalledProcedure:     {access.PermTokenRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.InstallServiceRemoveInstalledProcedure:   {access.PermTokenRevoke, AuditRoom, LimitMutate, NeedsProgram},

	// A test of a target sends a fixed message of the gateway to the target's readers.
	palyrav1connect.NotifyServiceListNotifyTargetsProcedure: {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceTestNotifyProcedure:        {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceListDeliveriesProcedure:    {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceListChatUsersProcedure:     {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceConsentToChatUserProcedure: {access.PermAccessConsent, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceMapChatUserProcedure:       {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceUnmapChatUserProcedure:     {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},

	// The vault checks the permission to put, list, read and remove for each secret.
	palyrav1connect.VaultServicePutSecretProcedure:      {access.PermVaultPut, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceGetSecretProcedure:      {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.VaultServiceRevealSecretProcedure:   {access.PermVaultGet, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceListSecretsProcedure:    {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.VaultServiceRemoveSecretProcedure:   {access.PermVaultDelete, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceRekeyVaultProcedure:     {access.PermVaultRekey, AuditRoom, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceExportRecoveryProcedure: {access.PermVaultRekey, AuditRoom, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceUnlockVaultProcedure:    {access.PermVaultRekey, AuditNone, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceGetVaultStatusProcedure: {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},

	// Every caller may explain its own access and its agents' access; the handler requires
	// access.read for the rest.
	palyrav1connect.AccessReviewServiceExplainAccessProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceShowAccessProcedure:    {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceListRolesProcedure:     {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},

	palyrav1connect.AccessReviewServiceListCeilingsProcedure: {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceSetCeilingProcedure:   {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},

	// The handler requires access.write for a device of another member.
	palyrav1connect.PairingServiceCreatePairingCodeProcedure: {access.PermDevicePair, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PairingServiceListPairingsProcedure:      {access.PermDevicePair, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PairingServiceCancelPairingProcedure:     {access.PermDevicePair, AuditRoom, LimitMutate, NeedsDevice},
	// These steps are for a machine that has no credential yet. They return no data of members.
	palyrav1connect.PairingServiceBeginPairingProcedure:   {"", AuditNone, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceProvePairingProcedure:   {"", AuditRoom, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceConfirmPairingProcedure: {"", AuditRoom, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceCollectPairingProcedure: {"", AuditRoom, LimitPairing, NeedsNothing},

	// A user who logs in has no credential yet: the identity provider authenticates them.
	palyrav1connect.LoginServiceDescribeLoginProcedure: {"", AuditNone, LimitRead, NeedsNothing},
	palyrav1connect.LoginServiceBeginLoginProcedure:    {"", AuditNone, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServiceCompleteLoginProcedure: {"", AuditRoom, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServicePollLoginProcedure:     {"", AuditRoom, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServiceEndLoginProcedure:      {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsProgram},

	// The handler restricts links to users with a device, and decides which sessions of others are
	// visible and can be ended.
	palyrav1connect.ConsoleServiceCreateConsoleLoginProcedure:   {access.PermDaemonStatus, AuditRoom, LimitLogin, NeedsProgram},
	palyrav1connect.ConsoleServiceListConsoleSessionsProcedure:  {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ConsoleServiceRevokeConsoleSessionProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.ConsoleServiceWhoamiProcedure:               {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	// The handler filters the events for each caller.
	palyrav1connect.ConsoleServiceWatchConsoleProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ConsoleServiceGetSettingsProcedure:  {access.PermConfigRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ConsoleServiceExamineProcedure:      {access.PermConfigRead, AuditNone, LimitMutate, NeedsDevice},

	healthv1connect.HealthCheckProcedure: {"", AuditNone, LimitRead, NeedsNothing},
	reflectionProcedure("v1"):            {access.PermDaemonStatus, AuditNone, LimitRead, NeedsProgram},
	reflectionProcedure("v1alpha"):       {access.PermDaemonStatus, AuditNone, LimitRead, NeedsProgram},
}

func reflectionProcedure(version string) string {
	return "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
}

// Route is the row of a plain HTTP endpoint. The API's methods have the rows above.
type Route struct {
	// Listener is the configuration key of the listener that serves the route.
	Listener string
	// Description is a short text about the route's response.
	Description string
	// Guard is the access row, as for a method. A route without one is public to all who can reach
	// the listener: it must not return restricted data.
	Guard *Method
}

// everywhere names the listeners of guarded routes.
const everywhere = "listen.api, listen.agents"

// routes has one row per pattern of a mux (net/http). A pattern without a row is
// denied.
var routes = map[string]Route{
	"GET /metrics":           {"listen.metrics", "counters and durations for Prometheus, without data of callers or calls", nil},
	"POST /hooks/v1/{agent}": {"listen.agents", "requests and reports of agents' hooks; otherwise served only on the socket `hooks.sock` of the state directory", &Method{access.PermHookReport, AuditRoom, LimitToolCall, NeedsDevice}},

	console.PagesRoute:    {"listen.console", "the pages of the console, identical for all users", nil},
	console.LoginRoute:    {"listen.console", "a session for the single-use token of a link", nil},
	console.AboutRoute:    {"listen.console", "whether users log in at an identity provider", nil},
	console.ProviderRoute: {"listen.console", "redirect of a browser to the identity provider", nil},
	console.CallbackRoute: {"listen.console", "callback from the identity provider, for the same browser", nil},
	console.LogoutRoute:   {"listen.console", "logout: ends the session of the request", nil},

	"GET /healthz": {"listen.metrics", "liveness: palyrad runs", nil},
	"GET /readyz":  {"listen.metrics", "readiness, with the problems if not ready", nil},

	"GET " + resource.MetadataPath:                    {everywhere, "metadata of the issuers of access tokens for this gateway", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	"GET " + resource.MetadataPath + resource.MCPPath: {everywhere, "the same, at the path that MCP clients use", &Method{"", AuditNone, LimitRead, NeedsNothing}},

	// The handler checks in the configuration which members a caller may ask about.
	"POST /access/v1/evaluation":             {everywhere, "whether a member may make a call that runs elsewhere (AuthZEN)", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"POST /access/v1/evaluations":            {everywhere, "the same for several calls; each counts", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"POST /access/v1/requests":               {everywhere, "request approval of a denied call", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"GET /access/v1/requests/{task}":         {everywhere, "the answer to that request, for its requester", &Method{access.PermAccessEvaluateFor, AuditNone, LimitRead, NeedsDevice}},
	"POST /access/v1/requests/{task}/cancel": {everywhere, "cancel that request", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitMutate, NeedsDevice}},
	"GET /access/v1/jwks":                    {everywhere, "the public key that verifies the bindings of AuthZEN's answers", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	"GET /.well-known/authzen-configuration": {everywhere, "discovery of AuthZEN's routes", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	presenceproof.Route:                      {everywhere, "votes that webhook receivers forward, each signed by the voter's device", &Method{"", AuditRoom, LimitDecide, NeedsSignature}},
	MCPRoute:                                 {everywhere, "MCP over Streamable HTTP (docs/mcp.md)", &Method{access.PermToolCall, AuditRoom, LimitToolCall, NeedsDevice}},
	ApprovalPageRoute:                        {everywhere, "instructions for answering an approval, without its content", &Method{"", AuditNone, LimitRead, NeedsNothing}},
}

// The guarded routes.
const (
	MCPRoute          = "/mcp"
	ApprovalPageRoute = "GET /approvals/{id}"
)

// Routes returns the rows by pattern, in no particular order.
func Routes() iter.Seq2[string, Route] { return maps.All(routes) }

// Listed serves handlers by their patterns. It denies patterns that have no row, and patterns that
// need a credential, because it does not check credentials (see surfaces).
func Listed(handlers map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range handlers {
		if row, ok := routes[pattern]; !ok || row.Guard != nil {
			handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "the route is not in the access table", http.StatusForbidden)
			})
		}
		mux.Handle(pattern, handler)
	}
	return mux
}

// offered denies requests that match no method of an offered service, so that nothing bypasses the
// guard through the mux.
func offered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if _, listed := methods[r.URL.Path]; !listed && !slices.Contains(services, service) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
