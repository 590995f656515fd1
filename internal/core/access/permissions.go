package access

// The permissions that the gateway checks, each a Cedar action. The vocabulary has further
// actions, for policies that are written in advance.
const (
	PermToolList           Permission = "tool.list"
	PermToolCall           Permission = "tool.call"
	PermToolEvaluate       Permission = "tool.evaluate"
	PermHookReport         Permission = "hook.report"
	PermDaemonStatus       Permission = "daemon.status"
	PermConfigRead         Permission = "config.read"
	PermApprovalRead       Permission = "approval.read"
	PermApprovalDecide     Permission = "approval.decide"
	PermApprovalExport     Permission = "approval.export"
	PermApprovalGrantBroad Permission = "approval.grant_broad"
	PermGrantRead          Permission = "grant.read"
	PermGrantRevoke        Permission = "grant.revoke"
	PermPolicyRead         Permission = "policy.read"
	PermPolicyCheck        Permission = "policy.check"
	PermPolicyExplain      Permission = "policy.explain"
	PermPolicySnapshot     Permission = "policy.snapshot"
	PermPolicyActivate     Permission = "policy.activate"
	PermJournalRead        Permission = "journal.read"
	PermJournalTail        Permission = "journal.tail"
	PermJournalProve       Permission = "journal.prove"
	PermJournalExport      Permission = "journal.export"
	PermAttestationRead    Permission = "attestation.read"
	PermAttestationVerify  Permission = "attestation.verify"
	PermAccessRead         Permission = "access.read"
	PermAccessWrite        Permission = "access.write"
	PermAccessWriteOwner   Permission = "access.write_owner"
	PermAccessConsent      Permission = "access.consent"
	PermAccessEvaluateFor  Permission = "access.evaluate_for"
	PermTokenCreate        Permission = "token.create"
	PermTokenRead          Permission = "token.read"
	PermTokenRevoke        Permission = "token.revoke"
	PermPolicySimulate     Permission = "policy.simulate"
	PermPolicyTest         Permission = "policy.test"
	PermRunStart           Permission = "run.start"
	PermRunRead            Permission = "run.read"
	PermRunCancel          Permission = "run.cancel"
	PermGatewayFreeze      Permission = "gateway.freeze"
	PermGatewayThaw        Permission = "gateway.thaw"
	PermWorkspaceRead      Permission = "workspace.read"
	PermWorkspaceUndo      Permission = "workspace.undo"
	PermUpstreamRead       Permission = "upstream.read"
	PermUpstreamWrite      Permission = "upstream.write"
	PermUpstreamLogin      Permission = "upstream.login"
	PermSkillRead          Permission = "skill.read"
	PermSkillWrite         Permission = "skill.write"
	PermNotifyRead         Permission = "notify.read"
	PermNotifyWrite        Permission = "notify.write"
	PermDevicePair         Permission = "device.pair"
	PermVaultList          Permission = "vault.list"
	PermVaultPut           Permission = "vault.put"
	PermVaultGet           Permission = "vault.get"
	PermVaultDelete        Permission = "vault.delete"
	PermVaultRekey         Permission = "vault.rekey"
	PermSecretLease        Permission = "secret.lease"
)

// NeverByToken are the permissions that no token can have, neither the gateway's own nor another
// issuer's: to answer approvals, to assign permissions and owners, and to relax restrictions. They
// require a device.
var NeverByToken = []Permission{
	PermApprovalDecide, PermApprovalGrantBroad, PermAccessWrite, PermAccessWriteOwner, PermAccessConsent,
	PermTokenCreate, PermPolicyActivate, PermGatewayThaw, PermDevicePair, PermUpstreamWrite, PermUpstreamLogin, PermSkillWrite, PermNotifyWrite,
	PermVaultPut, PermVaultGet, PermVaultDelete, PermVaultRekey, PermWorkspaceUndo,
}

// Permissions lists all permissions.
var Permissions = []Permission{
	PermToolList, PermToolCall, PermToolEvaluate, PermHookReport, PermDaemonStatus, PermConfigRead, PermApprovalRead, PermApprovalDecide, PermApprovalExport,
	PermApprovalGrantBroad, PermGrantRead, PermGrantRevoke, PermPolicyRead, PermPolicyCheck, PermPolicyExplain, PermPolicySnapshot,
	PermPolicyActivate, PermJournalRead, PermJournalTail, PermJournalProve, PermJournalExport, PermAttestationRead,
	PermAttestationVerify, PermAccessRead, PermAccessWrite, PermAccessWriteOwner, PermAccessConsent, PermAccessEvaluateFor,
	PermTokenCreate, PermTokenRead, PermTokenRevoke, PermPolicySimulate, PermPolicyTest, PermRunStart,
	PermRunRead, PermRunCancel, PermGatewayFreeze, PermGatewayThaw, PermWorkspaceRead, PermWorkspaceUndo, PermUpstreamRead, PermUpstreamWrite, PermUpstreamLogin,
	PermSkillRead, PermSkillWrite, PermNotifyRead, PermNotifyWrite, PermDevicePair, PermVaultList, PermVaultPut, PermVaultGet, PermVaultDelete, PermVaultRekey, PermSecretLease,
}
