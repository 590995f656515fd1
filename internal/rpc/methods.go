package rpc

import (
	"iter"
	"maps"

	"palyra/gen/grpc/health/v1/healthv1connect"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/policy"
	"palyra/internal/ratelimit"
)

// Audit says what the journal gets from a method.
type Audit string

// The audit kinds. Refusals of any method are journaled whatever its kind.
const (
	// AuditNone is for reads: nothing is journaled when they succeed.
	AuditNone Audit = "none"
	// AuditRoom is for acts that the room behind the method journals itself,
	// in the transaction that does them.
	AuditRoom Audit = "room"
	// AuditExport is for bulk reads: who took a copy, and of what.
	AuditExport Audit = "export"
)

// The limit classes; config has a bucket for each.
const (
	LimitRead     ratelimit.Class = "read"
	LimitMutate   ratelimit.Class = "mutate"
	LimitDecide   ratelimit.Class = "decide"
	LimitToolCall ratelimit.Class = "tool_call"
)

// Method is one row of the table.
type Method struct {
	// Permission is the Cedar action that the caller needs. The handler may
	// ask for more where the resource matters.
	Permission access.Permission
	Audit      Audit
	Limit      ratelimit.Class
	// Public methods need no credential; they return nothing of anybody's.
	Public bool
}

// Lookup returns the row of a method by its procedure; false when there is none.
func Lookup(procedure string) (Method, bool) {
	m, ok := methods[procedure]
	return m, ok
}

// Methods are the rows by procedure, in no order.
func Methods() iter.Seq2[string, Method] { return maps.All(methods) }

// methods has one row per method of the API. A method without a row is
// denied, and a test walks the service descriptors to see that none lacks one.
var methods = map[string]Method{
	palyrav1connect.GatewayServiceCallToolProcedure:     {policy.PermToolCall, AuditRoom, LimitToolCall, false},
	palyrav1connect.GatewayServiceListToolsProcedure:    {policy.PermToolList, AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceEvaluateToolProcedure: {policy.PermToolEvaluate, AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceEndSessionProcedure:   {policy.PermToolCall, AuditRoom, LimitMutate, false},

	// Which runs a caller may read and cancel beside its own is the handler's
	// to say.
	palyrav1connect.GatewayServiceRunStreamProcedure: {policy.PermRunStart, AuditRoom, LimitToolCall, false},
	palyrav1connect.GatewayServiceStartRunProcedure:  {policy.PermRunStart, AuditRoom, LimitToolCall, false},
	palyrav1connect.GatewayServiceGetRunProcedure:    {policy.PermRunRead, AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceListRunsProcedure:  {policy.PermRunRead, AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceWatchRunProcedure:  {policy.PermRunRead, AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceCancelRunProcedure: {policy.PermRunCancel, AuditRoom, LimitMutate, false},

	palyrav1connect.ApprovalsServiceListApprovalsProcedure:  {policy.PermApprovalRead, AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceGetApprovalProcedure:    {policy.PermApprovalRead, AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceWatchApprovalsProcedure: {policy.PermApprovalRead, AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure: {policy.PermApprovalDecide, AuditRoom, LimitDecide, false},
	// Requesters and those who decide all may call tools; who may withdraw
	// which approval is the desk's to say.
	palyrav1connect.ApprovalsServiceCancelApprovalProcedure:  {policy.PermToolCall, AuditRoom, LimitMutate, false},
	palyrav1connect.ApprovalsServiceExportApprovalsProcedure: {policy.PermApprovalExport, AuditExport, LimitRead, false},
	palyrav1connect.ApprovalsServiceListGrantsProcedure:      {policy.PermGrantRead, AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceRevokeGrantProcedure:     {policy.PermGrantRevoke, AuditRoom, LimitMutate, false},

	palyrav1connect.PolicyServiceValidatePolicyProcedure: {policy.PermPolicyCheck, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceGetPolicyProcedure:      {policy.PermPolicyRead, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceReloadPolicyProcedure:   {policy.PermPolicyActivate, AuditRoom, LimitMutate, false},
	palyrav1connect.PolicyServiceGetSnapshotProcedure:    {policy.PermPolicySnapshot, AuditNone, LimitRead, false},

	palyrav1connect.PolicyServiceExplainPolicyProcedure:      {policy.PermPolicyExplain, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceSimulatePolicyProcedure:     {policy.PermPolicySimulate, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceTestPolicyProcedure:         {policy.PermPolicyTest, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceListPolicyVersionsProcedure: {policy.PermPolicyRead, AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceActivatePolicyProcedure:     {policy.PermPolicyActivate, AuditRoom, LimitMutate, false},

	palyrav1connect.JournalServiceListEventsProcedure:    {policy.PermJournalRead, AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceTailEventsProcedure:    {policy.PermJournalTail, AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceGetEventProcedure:      {policy.PermJournalRead, AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceGetCheckpointProcedure: {policy.PermJournalProve, AuditRoom, LimitMutate, false},
	palyrav1connect.JournalServiceProveEventProcedure:    {policy.PermJournalProve, AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceExportJournalProcedure: {policy.PermJournalExport, AuditExport, LimitRead, false},

	palyrav1connect.AttestationServiceGetAttestationProcedure:   {policy.PermAttestationRead, AuditNone, LimitRead, false},
	palyrav1connect.AttestationServiceListAttestationsProcedure: {policy.PermAttestationRead, AuditNone, LimitRead, false},
	palyrav1connect.AttestationServiceGetKeySetProcedure:        {policy.PermAttestationVerify, AuditNone, LimitRead, false},

	palyrav1connect.StatusServiceGetStatusProcedure: {policy.PermDaemonStatus, AuditNone, LimitRead, false},
	palyrav1connect.StatusServiceFreezeProcedure:    {policy.PermGatewayFreeze, AuditRoom, LimitMutate, false},
	palyrav1connect.StatusServiceThawProcedure:      {policy.PermGatewayThaw, AuditRoom, LimitMutate, false},

	palyrav1connect.AccessServiceAddMemberProcedure:          {policy.PermAccessWrite, AuditRoom, LimitMutate, false},
	palyrav1connect.AccessServiceListMembersProcedure:        {policy.PermAccessRead, AuditNone, LimitRead, false},
	palyrav1connect.IdentityServiceListDevicesProcedure:      {policy.PermAccessRead, AuditNone, LimitRead, false},
	palyrav1connect.IdentityServiceRenewCertificateProcedure: {policy.PermDaemonStatus, AuditRoom, LimitMutate, false},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:     {policy.PermAccessWrite, AuditRoom, LimitMutate, false},

	palyrav1connect.WorkspaceServiceListWorkspacesProcedure: {policy.PermWorkspaceRead, AuditNone, LimitRead, false},
	palyrav1connect.WorkspaceServiceListChangeSetsProcedure: {policy.PermWorkspaceRead, AuditNone, LimitRead, false},
	palyrav1connect.WorkspaceServiceGetChangeSetProcedure:   {policy.PermWorkspaceRead, AuditNone, LimitRead, false},
	palyrav1connect.WorkspaceServiceUndoChangeSetProcedure:  {policy.PermWorkspaceUndo, AuditRoom, LimitMutate, false},

	// Sessions are for users alone; whose a caller may read and end beside its own
	// is the handler's to say.
	palyrav1connect.SessionServiceListSessionsProcedure: {policy.PermRunRead, AuditNone, LimitRead, false},
	palyrav1connect.SessionServiceGetSessionProcedure:   {policy.PermRunRead, AuditNone, LimitRead, false},
	palyrav1connect.SessionServiceEndSessionProcedure:   {policy.PermRunCancel, AuditRoom, LimitMutate, false},

	healthv1connect.HealthCheckProcedure: {"", AuditNone, LimitRead, true},
	reflectionProcedure("v1"):            {policy.PermDaemonStatus, AuditNone, LimitRead, false},
	reflectionProcedure("v1alpha"):       {policy.PermDaemonStatus, AuditNone, LimitRead, false},
}

func reflectionProcedure(version string) string {
	return "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
}
