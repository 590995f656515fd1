package check

import "iter"

// Rule is the treatment of a text that has the form of a secret key. The zero rule is the
// strictest.
type Rule uint8

// The rules.
const (
	// Refused: names that users choose, and identifiers of existing objects. The sender receives an
	// error, and nothing is stored.
	Refused Rule = iota
	// Redacted: text that users write for users. The rest of the text is stored.
	Redacted
	// Digested: idempotency keys, which must match in a retry.
	Digested
	// Read: text that is processed but not stored, or that its store redacts.
	Read
)

// redacted are sentences, such as the reasons that users give.
var redacted = []string{
	"CallToolRequest.requester_reason", "EvaluateToolRequest.requester_reason",
	"CancelApprovalRequest.reason", "CancelCallRequest.reason", "CancelRun.reason", "CancelRunRequest.reason", "DecideApprovalRequest.reason",
	"EditApprovalRequest.reason",
	"DisableMemberRequest.reason", "EnableMemberRequest.reason", "FreezeRequest.reason", "PutSecretRequest.note", "RemoveMemberRequest.reason", "RevokeDeviceRequest.reason",
	"RevokeGrantRequest.reason", "SessionServiceEndSessionRequest.reason", "SetCeilingRequest.reason", "SetSkillStatusRequest.reason", "UndoChangeSetRequest.reason",
}

var digested = []string{"CallToolRequest.idempotency_key", "SendRunMessageRequest.idempotency_key", "StartRunRequest.idempotency_key"}

// named are names, identifiers and filters.
var named = []string{
	"ActivatePolicyRequest.version", "AddDeviceRequest.member", "AddMemberRequest.kind", "AddMemberRequest.name", "AddMemberRequest.owner",
	"AddMemberRequest.roles", "BeginPairingRequest.pairing_id",
	"CallToolRequest.channel", "CallToolRequest.run", "CallToolRequest.session", "CallToolRequest.tool",
	"ChallengePresenceRequest.approval_id", "ConfirmPresenceKeyRequest.device_id", "ConfirmPresenceKeyRequest.key_sha256", "ResetPresenceKeyRequest.device_id",
	"ChallengePasskeyRequest.confirm", "ChallengePasskeyRequest.remove", "ConfirmPasskeyRequest.passkey_id", "FinishPasskeyEnrolmentRequest.name", "ListPasskeysRequest.member", "RemovePasskeyRequest.passkey_id",
	"ExportRecoveryRequest.recipient", "GetSecretRequest.ref", "HostList.hosts", "ListSecretsRequest.scope",
	"PutSecretRequest.env", "PutSecretRequest.file", "PutSecretRequest.header", "PutSecretRequest.ref", "RemoveSecretRequest.ref", "RevealSecretRequest.ref",
	"CancelApprovalRequest.approval_id", "CancelCallRequest.proposal_id", "CancelPairingRequest.pairing_id", "CancelRunRequest.run_id",
	"CompleteLoginRequest.login_id", "ConfirmMemberRequest.member", "ConfirmMembersRequest.members", "ConsentToAgentRequest.agent",
	"CreatePairingCodeRequest.member", "CreatePairingCodeRequest.owner", "CreatePairingCodeRequest.roles",
	"RevokeConsoleSessionRequest.session_id",
	"CreateTokenRequest.addresses", "CreateTokenRequest.name", "CreateTokenRequest.principal", "CreateTokenRequest.scopes",
	"DecideApprovalRequest.approval_id", "DecideApprovalRequest.shown_digest", "DecideApprovalRequest.surface",
	"EditApprovalRequest.approval_id", "EditApprovalRequest.shown_digest", "EditApprovalRequest.surface",
	"DescribedVote.roles", "DescribedVote.surface", "DescribedVote.user",
	"DisableMemberRequest.member", "EnableMemberRequest.member", "EndSessionRequest.session",
	"EvaluateToolRequest.channel", "EvaluateToolRequest.session", "EvaluateToolRequest.tool",
	"EventFilter.actor", "EventFilter.code", "EventFilter.run", "EventFilter.session", "EventFilter.subject",
	"ExplainAccessRequest.method", "ExplainAccessRequest.principal", "ExplainPolicyRequest.decision_id",
	"GetApprovalRequest.approval_id", "GetAttestationRequest.id", "GetCallRequest.proposal_id",
	"GetChangeSetRequest.change_set_id", "GetChangeSetRequest.workspace", "GetDeviceRequest.device_id", "GetPolicyRequest.version",
	"GetRunRequest.run_id", "GetSessionRequest.session_id", "GetSnapshotRequest.snapshot_digest",
	"ListApprovalsRequest.except_principals", "ListApprovalsRequest.except_severities", "ListApprovalsRequest.except_tools",
	"ListApprovalsRequest.principals", "ListApprovalsRequest.severities", "ListApprovalsRequest.tools", "ListCallsRequest.principal", "ListCallsRequest.run", "ListChangeSetsRequest.workspace",
	"InstalledEntry.digest", "InstalledEntry.format", "InstalledEntry.keys", "InstalledEntry.path", "InstalledEntry.state",
	"ListDeviceActsRequest.device_id", "ListGrantsRequest.principal", "ListRunsRequest.principal", "ListRunsRequest.session", "ListSessionsRequest.principal", "ListTokensRequest.made_with_device_id",
	"PollLoginRequest.login_id", "ProvePairingRequest.device_name", "ProvePairingRequest.pairing_id",
	"RegisterInstalledRequest.agent", "RegisterInstalledRequest.installation_id", "RegisterInstalledRequest.scope", "RegisterInstalledRequest.transport", "RemoveInstalledRequest.installation_id",
	"RemoveMemberRequest.member", "RenameDeviceRequest.device_id", "RenameDeviceRequest.name", "ResumeRun.run_id", "RevokeDeviceRequest.device_id",
	"RevokeGrantRequest.grant_id", "RevokeTokenRequest.token_id", "RotateKeyRequest.name",
	"SendRunMessageRequest.run_id", "SessionServiceEndSessionRequest.session_id", "SetCeilingRequest.name", "ShowAccessRequest.principal",
	"StartRunRequest.model", "StartRunRequest.session", "StartRunRequest.workspace", "UndoChangeSetRequest.change_set_id", "UndoChangeSetRequest.workspace",
	"GetUpstreamRequest.name", "RemoveUpstreamRequest.name", "RefreshUpstreamRequest.name", "ApproveUpstreamRequest.name", "ApproveUpstreamRequest.pending_digest",
	"BeginUpstreamLoginRequest.name", "EndUpstreamLoginRequest.name", "UpstreamOAuth.issuer", "UpstreamOAuth.client_id", "UpstreamOAuth.client_secret", "UpstreamOAuth.scopes",
	"UpstreamServer.name", "UpstreamServer.command", "UpstreamServer.env", "UpstreamServer.workspace", "UpstreamServer.hosts", "UpstreamServer.secrets", "UpstreamServer.inject", "UpstreamServer.meta", "UpstreamServer.url",
	"UpstreamHeader.name", "UpstreamHeader.scheme", "UpstreamHeader.secret",
	"TestNotifyRequest.target", "ListDeliveriesRequest.states", "ListDeliveriesRequest.target",
	"ConsentToChatUserRequest.team", "ConsentToChatUserRequest.user", "MapChatUserRequest.member", "MapChatUserRequest.team", "MapChatUserRequest.user", "UnmapChatUserRequest.team", "UnmapChatUserRequest.user",
	"UpstreamPackage.ecosystem", "UpstreamPackage.name", "UpstreamPackage.version", "UpstreamPackage.integrity", "UpstreamPackage.registry", "UpstreamPackage.prefix", "UpstreamPackage.registry_secret", "UpstreamPackage.registry_user",
	"ResolvePackageRequest.server", "ResolvePackageRequest.ecosystem", "ResolvePackageRequest.name", "ResolvePackageRequest.version", "ResolvePackageRequest.registry", "ResolvePackageRequest.registry_secret", "ResolvePackageRequest.registry_user",
	"UpdateUpstreamRequest.name", "UpdateUpstreamRequest.prefix",
	"DistrustPublisherRequest.name", "GetSkillRequest.skill", "GetSkillRequest.version", "InspectSkillRequest.digest", "InstallSkillRequest.digest", "RemoveSkillRequest.skill", "RemoveSkillRequest.version",
	"SetSkillStatusRequest.skill", "SetSkillStatusRequest.version", "StageSkillRequest.digest", "TrustPublisherRequest.name",
	"UpdateMemberRequest.add_roles", "UpdateMemberRequest.member", "UpdateMemberRequest.owner", "UpdateMemberRequest.remove_roles", "WatchRunRequest.run_id",
}

// read are the fields that are left unchanged, by reason.
var read = map[string][]string{
	"the model needs the text; the journal and the tape redact it when they store it":                               {"SendRunMessageRequest.text", "StartRunRequest.message", "UserMessage.text"},
	"the tool needs its arguments; the record of the call is redacted, including the fields that the tool declares": {"CallToolRequest.input_json", "EditApprovalRequest.input_json", "EvaluateToolRequest.input_json"},
	"a described call is evaluated and not stored": {
		"CallDescription.channel", "CallDescription.facts_json", "CallDescription.input_json", "CallDescription.principal", "CallDescription.session", "CallDescription.tool",
	},
	"a tested policy is evaluated and not stored": {"PolicySource.name", "PolicySource.text"},
	"the gateway generated it and reads it once": {
		"GetChangeSetRequest.page_token", "ListApprovalsRequest.page_token", "ListAttestationsRequest.page_token", "ListCallsRequest.page_token", "ListDeliveriesRequest.page_token",
		"ListDeviceActsRequest.page_token", "ListGrantsRequest.page_token", "ListPolicyVersionsRequest.page_token", "ListRunsRequest.page_token",
		"ListSecretsRequest.page_token", "ListSessionsRequest.page_token", "WatchApprovalsRequest.cursor",
	},
	"it is part of an exchange with a secret, which is compared and not stored": {
		"BeginLoginRequest.redirect_uri", "BeginUpstreamLoginRequest.redirect_uri", "CompleteUpstreamLoginRequest.code", "CompleteUpstreamLoginRequest.issuer", "CompleteUpstreamLoginRequest.login_id", "CompleteUpstreamLoginRequest.state", "CompleteLoginRequest.code", "CompleteLoginRequest.issuer", "CompleteLoginRequest.proof", "CompleteLoginRequest.state",
		"PollLoginRequest.proof", "CollectPairingRequest.signature", "ConfirmPairingRequest.attempt", "ConfirmPairingRequest.confirmation",
		"ConfirmPairingRequest.nonce", "ProvePairingRequest.commitment", "ProvePairingRequest.share",
	},
	"the vault seals the value, and the passphrase opens its key": {"PutSecretRequest.value", "UnlockVaultRequest.passphrase"},
	"it is a public key, a nonce of the gateway, or a signature over them": {"PresenceProof.nonce", "PresenceProof.signature", "RegisterPresenceKeyRequest.previous_signature", "RegisterPresenceKeyRequest.public_key", "TrustPublisherRequest.public_key",
		"FinishPasskeyEnrolmentRequest.credential_json", "FinishPasskeyEnrolmentRequest.nonce", "PasskeyAssertion.authenticator_data", "PasskeyAssertion.client_data_json", "PasskeyAssertion.credential_id", "PasskeyAssertion.nonce", "PasskeyAssertion.signature"},
	"it is a part of a package, whose format is parsed": {"StageSkillRequest.data"},
	"only the public key of a certificate request is used": {
		"AddDeviceRequest.certificate_request", "AddMemberRequest.certificate_request", "BeginLoginRequest.certificate_request",
		"CollectPairingRequest.certificate_request", "ProvePairingRequest.certificate_request", "RenewCertificateRequest.certificate_request",
	},
}

// rules are the rules of all tables by field.
var rules = func() map[string]Rule {
	all := map[string]Rule{}
	for field, rule := range Table() {
		all[field] = rule
	}
	return all
}()

// Table returns the rule of each field that holds text or bytes, such as FreezeRequest.reason. A
// field that is listed twice is returned twice.
func Table() iter.Seq2[string, Rule] {
	return func(yield func(string, Rule) bool) {
		each := func(rule Rule, fields []string) bool {
			for _, field := range fields {
				if !yield(field, rule) {
					return false
				}
			}
			return true
		}
		if !each(Refused, named) || !each(Redacted, redacted) || !each(Digested, digested) {
			return
		}
		for _, fields := range read {
			if !each(Read, fields) {
				return
			}
		}
	}
}
