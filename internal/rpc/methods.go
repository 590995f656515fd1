package rpc

import (
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
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

// Methods has one row per method of the API. A method without a row is
// denied, and a test walks the service descriptors to see that none lacks one.
var Methods = map[string]Method{
	palyrav1connect.GatewayServiceCallToolProcedure:     {"tool.call", AuditRoom, LimitToolCall, false},
	palyrav1connect.GatewayServiceListToolsProcedure:    {"tool.list", AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceEvaluateToolProcedure: {"tool.evaluate", AuditNone, LimitRead, false},
	palyrav1connect.GatewayServiceEndSessionProcedure:   {"tool.call", AuditRoom, LimitMutate, false},

	palyrav1connect.ApprovalsServiceListApprovalsProcedure:   {"approval.read", AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceGetApprovalProcedure:     {"approval.read", AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceWatchApprovalsProcedure:  {"approval.read", AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure:  {"approval.decide", AuditRoom, LimitDecide, false},
	palyrav1connect.ApprovalsServiceExportApprovalsProcedure: {"approval.export", AuditExport, LimitRead, false},
	palyrav1connect.ApprovalsServiceListGrantsProcedure:      {"grant.read", AuditNone, LimitRead, false},
	palyrav1connect.ApprovalsServiceRevokeGrantProcedure:     {"grant.revoke", AuditRoom, LimitMutate, false},

	palyrav1connect.PolicyServiceValidatePolicyProcedure: {"policy.check", AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceGetPolicyProcedure:      {"policy.read", AuditNone, LimitRead, false},
	palyrav1connect.PolicyServiceReloadPolicyProcedure:   {"policy.activate", AuditRoom, LimitMutate, false},
	palyrav1connect.PolicyServiceGetSnapshotProcedure:    {"policy.snapshot", AuditNone, LimitRead, false},

	palyrav1connect.JournalServiceListEventsProcedure:    {"journal.read", AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceTailEventsProcedure:    {"journal.tail", AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceGetEventProcedure:      {"journal.read", AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceGetCheckpointProcedure: {"journal.prove", AuditRoom, LimitMutate, false},
	palyrav1connect.JournalServiceProveEventProcedure:    {"journal.prove", AuditNone, LimitRead, false},
	palyrav1connect.JournalServiceExportJournalProcedure: {"journal.export", AuditExport, LimitRead, false},

	palyrav1connect.AttestationServiceGetAttestationProcedure:   {"attestation.read", AuditNone, LimitRead, false},
	palyrav1connect.AttestationServiceListAttestationsProcedure: {"attestation.read", AuditNone, LimitRead, false},
	palyrav1connect.AttestationServiceGetKeySetProcedure:        {"attestation.verify", AuditNone, LimitRead, false},

	palyrav1connect.StatusServiceGetStatusProcedure: {"daemon.status", AuditNone, LimitRead, false},
	palyrav1connect.StatusServiceFreezeProcedure:    {"gateway.freeze", AuditRoom, LimitMutate, false},
	palyrav1connect.StatusServiceThawProcedure:      {"gateway.thaw", AuditRoom, LimitMutate, false},

	palyrav1connect.AccessServiceAddMemberProcedure:          {"access.write", AuditRoom, LimitMutate, false},
	palyrav1connect.AccessServiceListMembersProcedure:        {"access.read", AuditNone, LimitRead, false},
	palyrav1connect.IdentityServiceListDevicesProcedure:      {"access.read", AuditNone, LimitRead, false},
	palyrav1connect.IdentityServiceRenewCertificateProcedure: {"daemon.status", AuditRoom, LimitMutate, false},
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:     {"access.write", AuditRoom, LimitMutate, false},

	healthCheckProcedure:           {"", AuditNone, LimitRead, true},
	reflectionProcedure("v1"):      {"daemon.status", AuditNone, LimitRead, false},
	reflectionProcedure("v1alpha"): {"daemon.status", AuditNone, LimitRead, false},
}

const healthCheckProcedure = "/grpc.health.v1.Health/Check"

func reflectionProcedure(version string) string {
	return "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
}
