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

// Audit says what the journal gets from a method.
type Audit string

// The audit kinds. Refusals of any method are journaled whatever its kind.
const (
	// AuditNone is for reads: nothing is journaled when they succeed.
	AuditNone Audit = "none"
	// AuditRoom is for changes that the package behind the method journals
	// itself, in the transaction that makes them.
	AuditRoom Audit = "room"
	// AuditExport is for bulk reads: who took a copy, and of what.
	AuditExport Audit = "export"
)

// The limit classes; config has a bucket for each.
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

// Proof is what a method asks of its caller, from the most to the least.
type Proof int

// The proofs.
const (
	// NeedsCertificate wants the certificate of a device, valid now. It is for methods
	// that certify keys: what has no certificate of its own makes none.
	NeedsCertificate Proof = iota
	// NeedsDevice also takes the socket of the local operator, a token, and a session of
	// the console.
	NeedsDevice
	// NeedsProgram takes what NeedsDevice takes, but no session of the console: it is for
	// what leads to other credentials or keys, what no page needs, and what is about the
	// machine of whoever asks.
	NeedsProgram
	// NeedsRenewable wants a certificate, also one that expired at most ca.RenewableFor ago.
	NeedsRenewable
	// NeedsSignature is for routes whose requests are signed, whoever brings them. The handler
	// verifies the signature first, and counts a request without a valid one with CountAgain:
	// so a flood of those does not have a signed request refused.
	NeedsSignature
	// NeedsNothing is for methods that return no data of any caller.
	NeedsNothing
)

// Method is one row of the table.
type Method struct {
	// Permission is the Cedar action that the caller needs. The handler may
	// ask for more where the resource matters.
	Permission access.Permission
	Audit      Audit
	Limit      limit.Class
	// Needs is what a caller has to show.
	Needs Proof
}

// Lookup returns the row of a method by its procedure; false when there is none.
func Lookup(procedure string) (Method, bool) {
	m, ok := methods[procedure]
	return m, ok
}

// Methods are the rows by procedure, in no order.
func Methods() iter.Seq2[string, Method] { return maps.All(methods) }

// reviewed are the rows as an access review reads them, ordered by procedure.
func reviewed() []people.Method {
	list := make([]people.Method, 0, len(methods))
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		m := methods[procedure]
		list = append(list, people.Method{Procedure: procedure, Permission: m.Permission, Public: m.Needs == NeedsNothing})
	}
	return list
}

// withheld are the methods that no session of the console may use, as "Service/Method".
func withheld() (list []string) {
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		if name, own := strings.CutPrefix(procedure, "/palyra.v1."); own && methods[procedure].Needs != NeedsDevice {
			list = append(list, name)
		}
	}
	return list
}

// methods has one row per method of the API. A method without a row is
// denied, and a test walks the service descriptors to see that none lacks one.
var methods = map[string]Method{
	palyrav1connect.GatewayServiceCallToolProcedure:     {access.PermToolCall, AuditRoom, LimitToolCall, NeedsProgram},
	palyrav1connect.GatewayServiceListToolsProcedure:    {access.PermToolList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceEvaluateToolProcedure: {access.PermToolEvaluate, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceEndSessionProcedure:   {access.PermToolCall, AuditRoom, LimitMutate, NeedsProgram},

	// Which runs a caller may read and cancel beside its own is the handler's
	// to say.
	palyrav1connect.GatewayServiceRunStreamProcedure: {access.PermRunStart, AuditRoom, LimitRun, NeedsProgram},
	palyrav1connect.GatewayServiceStartRunProcedure:  {access.PermRunStart, AuditRoom, LimitRun, NeedsDevice},
	palyrav1connect.GatewayServiceGetRunProcedure:    {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceListRunsProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceWatchRunProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	// Also of a user's message on an open stream.
	palyrav1connect.GatewayServiceSendRunMessageProcedure: {access.PermRunStart, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.GatewayServiceCancelRunProcedure:      {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	// As for runs: whose calls a caller may see and end beside its own is the
	// handler's to say.
	palyrav1connect.GatewayServiceListCallsProcedure:  {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceGetCallProcedure:    {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.GatewayServiceCancelCallProcedure: {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	palyrav1connect.ApprovalsServiceListApprovalsProcedure:  {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceGetApprovalProcedure:    {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceWatchApprovalsProcedure: {access.PermApprovalRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure: {access.PermApprovalDecide, AuditRoom, LimitDecide, NeedsDevice},
	palyrav1connect.ApprovalsServiceEditApprovalProcedure:   {access.PermApprovalDecide, AuditRoom, LimitDecide, NeedsDevice},
	// Requesters and those who decide all may call tools; who may withdraw
	// which approval is the desk's to say.
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
	// A change that concerns owners or admins also needs access.write_owner, which
	// the handler asks.
	palyrav1connect.AccessServiceUpdateMemberProcedure:  {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceConfirmMemberProcedure: {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	// That only the owner of the agent consents, with a device, is identity's to say.
	palyrav1connect.AccessServiceConsentToAgentProcedure:     {access.PermAccessConsent, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceDisableMemberProcedure:      {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceEnableMemberProcedure:       {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.AccessServiceRemoveMemberProcedure:       {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.IdentityServiceListDevicesProcedure:      {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.IdentityServiceRenewCertificateProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsRenewable},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:     {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.IdentityServiceRenameDeviceProcedure:     {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},
	// That it takes the device of the gateway's own host is identity's to say.
	palyrav1connect.IdentityServiceAddDeviceProcedure: {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsCertificate},

	// Others' devices take access.read, which is the handler's to say.
	palyrav1connect.DeviceServiceGetDeviceProcedure:      {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.DeviceServiceListDeviceActsProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	// That it takes the device of the gateway's own host is the handler's to say.
	palyrav1connect.KeyServiceListKeysProcedure:  {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.KeyServiceRotateKeyProcedure: {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsProgram},

	// A presence key is its device's own; whose others count, and that it takes the
	// gateway's host to take one away, is the handler's to say.
	palyrav1connect.PresenceServiceChallengePresenceProcedure:   {access.PermDaemonStatus, AuditNone, LimitDecide, NeedsCertificate},
	palyrav1connect.PresenceServiceRegisterPresenceKeyProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsCertificate},
	palyrav1connect.PresenceServiceConfirmPresenceKeyProcedure:  {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PresenceServiceResetPresenceKeyProcedure:    {access.PermAccessWriteOwner, AuditRoom, LimitMutate, NeedsProgram},

	// A passkey is its member's own; who makes another count or ends it, and that others'
	// take access.read, is the handler's to say.
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

	// A package has up to 64 parts, which is more than changes may come at once.
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

	// Sessions are for users alone; whose a caller may read and end beside its own
	// is the handler's to say.
	palyrav1connect.SessionServiceListSessionsProcedure: {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SessionServiceGetSessionProcedure:   {access.PermRunRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.SessionServiceEndSessionProcedure:   {access.PermRunCancel, AuditRoom, LimitMutate, NeedsDevice},

	// Whose tokens a caller may see and revoke beside its own is the handler's to
	// say, and that it has each scope that it gives.
	palyrav1connect.TokenServiceCreateTokenProcedure: {access.PermTokenCreate, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.TokenServiceListTokensProcedure:  {access.PermTokenRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.TokenServiceRevokeTokenProcedure: {access.PermTokenRevoke, AuditRoom, LimitMutate, NeedsDevice},

	// Who may make the token of a hook may have the hook watched.
	palyrav1connect.InstallServiceRegisterInstalledProcedure: {access.PermTokenCreate, AuditRoom, LimitMutate, NeedsProgram},
	palyrav1connect.InstallServiceListInstalledProcedure:     {access.PermTokenRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.InstallServiceRemoveInstalledProcedure:   {access.PermTokenRevoke, AuditRoom, LimitMutate, NeedsProgram},

	// A test of a target is a message to whoever looks there, in the gateway's own words.
	palyrav1connect.NotifyServiceListNotifyTargetsProcedure: {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceTestNotifyProcedure:        {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceListDeliveriesProcedure:    {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceListChatUsersProcedure:     {access.PermNotifyRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.NotifyServiceConsentToChatUserProcedure: {access.PermAccessConsent, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceMapChatUserProcedure:       {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.NotifyServiceUnmapChatUserProcedure:     {access.PermNotifyWrite, AuditRoom, LimitMutate, NeedsDevice},

	// Which secrets a caller may put, see, read and remove is the vault's to ask, of
	// each one.
	palyrav1connect.VaultServicePutSecretProcedure:      {access.PermVaultPut, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceGetSecretProcedure:      {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.VaultServiceRevealSecretProcedure:   {access.PermVaultGet, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceListSecretsProcedure:    {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.VaultServiceRemoveSecretProcedure:   {access.PermVaultDelete, AuditRoom, LimitSecret, NeedsDevice},
	palyrav1connect.VaultServiceRekeyVaultProcedure:     {access.PermVaultRekey, AuditRoom, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceExportRecoveryProcedure: {access.PermVaultRekey, AuditRoom, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceUnlockVaultProcedure:    {access.PermVaultRekey, AuditNone, LimitSecret, NeedsProgram},
	palyrav1connect.VaultServiceGetVaultStatusProcedure: {access.PermVaultList, AuditNone, LimitRead, NeedsDevice},

	// Everybody may ask about themselves and their agents; that the rest takes
	// access.read is the handler's to say.
	palyrav1connect.AccessReviewServiceExplainAccessProcedure: {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceShowAccessProcedure:    {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceListRolesProcedure:     {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},

	palyrav1connect.AccessReviewServiceListCeilingsProcedure: {access.PermAccessRead, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.AccessReviewServiceSetCeilingProcedure:   {access.PermAccessWrite, AuditRoom, LimitMutate, NeedsDevice},

	// That a device of somebody else takes access.write is the handler's to say.
	palyrav1connect.PairingServiceCreatePairingCodeProcedure: {access.PermDevicePair, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.PairingServiceListPairingsProcedure:      {access.PermDevicePair, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.PairingServiceCancelPairingProcedure:     {access.PermDevicePair, AuditRoom, LimitMutate, NeedsDevice},
	// The steps of a machine that has no credential yet. They return nothing of anybody.
	palyrav1connect.PairingServiceBeginPairingProcedure:   {"", AuditNone, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceProvePairingProcedure:   {"", AuditRoom, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceConfirmPairingProcedure: {"", AuditRoom, LimitPairing, NeedsNothing},
	palyrav1connect.PairingServiceCollectPairingProcedure: {"", AuditRoom, LimitPairing, NeedsNothing},

	// Who logs in has no credential yet: the identity provider vouches.
	palyrav1connect.LoginServiceDescribeLoginProcedure: {"", AuditNone, LimitRead, NeedsNothing},
	palyrav1connect.LoginServiceBeginLoginProcedure:    {"", AuditNone, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServiceCompleteLoginProcedure: {"", AuditRoom, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServicePollLoginProcedure:     {"", AuditRoom, LimitLogin, NeedsNothing},
	palyrav1connect.LoginServiceEndLoginProcedure:      {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsProgram},

	// That links are for people with a device, and whose sessions a caller may see and end
	// beside its own, is the handler's to say.
	palyrav1connect.ConsoleServiceCreateConsoleLoginProcedure:   {access.PermDaemonStatus, AuditRoom, LimitLogin, NeedsProgram},
	palyrav1connect.ConsoleServiceListConsoleSessionsProcedure:  {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	palyrav1connect.ConsoleServiceRevokeConsoleSessionProcedure: {access.PermDaemonStatus, AuditRoom, LimitMutate, NeedsDevice},
	palyrav1connect.ConsoleServiceWhoamiProcedure:               {access.PermDaemonStatus, AuditNone, LimitRead, NeedsDevice},
	// What of it a caller is sent is the handler's to say, event by event.
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

// Route is the row of what is served by plain HTTP beside the methods of the API, which
// have the rows above.
type Route struct {
	// Listener is the setting whose listener serves it.
	Listener string
	Says     string
	// Guard is what it takes, as for a method. A route without one is for anybody who
	// reaches the listener: give such a row to nothing that says what only some may
	// know.
	Guard *Method
}

// everywhere are the listeners of guarded routes.
const everywhere = "listen.api, listen.agents"

// routes has one row per pattern of a mux (net/http). A pattern without a row is
// denied.
var routes = map[string]Route{
	"GET /metrics":           {"listen.metrics", "counters and durations for Prometheus, of no caller and no call", nil},
	"POST /hooks/v1/{agent}": {"listen.agents", "what agents ask and report by their hooks; also on the socket `hooks.sock` of the state directory, and nowhere else", &Method{access.PermHookReport, AuditRoom, LimitToolCall, NeedsDevice}},

	console.PagesRoute:    {"listen.console", "the pages of the console, the same for everybody", nil},
	console.LoginRoute:    {"listen.console", "a session for the token of a link, which is good once", nil},
	console.AboutRoute:    {"listen.console", "whether people log in at an identity provider", nil},
	console.ProviderRoute: {"listen.console", "the way to the identity provider, for a browser", nil},
	console.CallbackRoute: {"listen.console", "the way back from there, for the browser that went", nil},
	console.LogoutRoute:   {"listen.console", "the end of the session that the request shows", nil},

	"GET /healthz": {"listen.metrics", "that palyrad runs", nil},
	"GET /readyz":  {"listen.metrics", "that it is ready, or why not", nil},

	"GET " + resource.MetadataPath:                    {everywhere, "who gives access tokens for this gateway, and for what", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	"GET " + resource.MetadataPath + resource.MCPPath: {everywhere, "the same, where clients of MCP look for it", &Method{"", AuditNone, LimitRead, NeedsNothing}},

	// About whom a caller may ask is the handler's to say, by the configuration.
	"POST /access/v1/evaluation":             {everywhere, "whether a member may make a call that runs elsewhere (AuthZEN)", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"POST /access/v1/evaluations":            {everywhere, "the same for several calls; each counts", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"POST /access/v1/requests":               {everywhere, "have people asked about a call that was denied", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitToolCall, NeedsDevice}},
	"GET /access/v1/requests/{task}":         {everywhere, "what people answered, to whoever had them asked", &Method{access.PermAccessEvaluateFor, AuditNone, LimitRead, NeedsDevice}},
	"POST /access/v1/requests/{task}/cancel": {everywhere, "take the question back", &Method{access.PermAccessEvaluateFor, AuditRoom, LimitMutate, NeedsDevice}},
	"GET /access/v1/jwks":                    {everywhere, "the key of what AuthZEN's answers are bound with", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	"GET /.well-known/authzen-configuration": {everywhere, "where AuthZEN's routes are", &Method{"", AuditNone, LimitRead, NeedsNothing}},
	presenceproof.Route:                      {everywhere, "votes that receivers of webhooks bring, each signed by the device of its voter", &Method{"", AuditRoom, LimitDecide, NeedsSignature}},
	MCPRoute:                                 {everywhere, "MCP over Streamable HTTP ([mcp.md](mcp.md))", &Method{access.PermToolCall, AuditRoom, LimitToolCall, NeedsDevice}},
	ApprovalPageRoute:                        {everywhere, "how an approval is answered, and nothing of it", &Method{"", AuditNone, LimitRead, NeedsNothing}},
}

// The guarded routes.
const (
	MCPRoute          = "/mcp"
	ApprovalPageRoute = "GET /approvals/{id}"
)

// Routes are the rows by pattern, in no order.
func Routes() iter.Seq2[string, Route] { return maps.All(routes) }

// Listed serves handlers by their patterns, and denies those that have no row, or one
// that takes a credential, which nothing looks at here (surfaces).
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

// offered denies what is no method of a service that the API offers, so that nothing
// is served beside the guard, whatever a mux was given.
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
