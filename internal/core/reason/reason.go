// Package reason is the closed enum of reason codes: why an operation was refused, denied or
// failed. API error details, CLI exit codes, console texts, metric labels and the texts for
// agents come from its one table. It is a leaf.
package reason

import (
	"errors"
	"fmt"
)

// Code is one reason. The zero value means "no reason": success.
type Code string

// The reasons.
const (
	InvalidInput        Code = "INVALID_INPUT"
	DuplicateKey        Code = "DUPLICATE_KEY"
	NumberNotExact      Code = "NUMBER_NOT_EXACT"
	InvalidUTF8         Code = "INVALID_UTF8"
	InputTooLarge       Code = "INPUT_TOO_LARGE"
	InputTooDeep        Code = "INPUT_TOO_DEEP"
	UnknownTool         Code = "UNKNOWN_TOOL"
	UnknownWorkspace    Code = "UNKNOWN_WORKSPACE"
	WorkspaceScope      Code = "WORKSPACE_SCOPE"
	ProtectedPath       Code = "PROTECTED_PATH"
	PatchConflict       Code = "PATCH_CONFLICT"
	CommitRefused       Code = "COMMIT_REFUSED"
	CommitConflict      Code = "COMMIT_CONFLICT"
	FileNotFound        Code = "FILE_NOT_FOUND"
	HostInvalid         Code = "HOST_INVALID"
	EgressDenied        Code = "EGRESS_DENIED"
	FetchFailed         Code = "FETCH_FAILED"
	ExecutableDenied    Code = "EXECUTABLE_DENIED"
	InlineCode          Code = "INTERPRETER_INLINE_CODE"
	SandboxDisabled     Code = "SANDBOX_DISABLED"
	SandboxUnavailable  Code = "SANDBOX_UNAVAILABLE"
	PlatformUnknown     Code = "UNSUPPORTED_PLATFORM"
	SpawnFailed         Code = "SPAWN_FAILED"
	TimedOut            Code = "TIMED_OUT"
	QuotaExceeded       Code = "QUOTA_EXCEEDED"
	ToolFailed          Code = "TOOL_FAILED"
	UpstreamUnavailable Code = "UPSTREAM_UNAVAILABLE"
	UpstreamLogin       Code = "UPSTREAM_LOGIN_REQUIRED"
	Cancelled           Code = "CANCELLED"

	PolicyDenied       Code = "POLICY_DENIED"
	PolicyError        Code = "POLICY_EVALUATION_ERROR"
	PolicyInvalid      Code = "POLICY_INVALID"
	ToolSuspended      Code = "TOOL_SUSPENDED"
	BudgetExceeded     Code = "BUDGET_EXCEEDED"
	FactsChanged       Code = "FACTS_CHANGED"
	ModelBudget        Code = "TOKEN_BUDGET_EXCEEDED"
	TimeBudget         Code = "TIME_BUDGET_EXCEEDED"
	ModelUnavailable   Code = "MODEL_UNAVAILABLE"
	ModelRejected      Code = "MODEL_REJECTED"
	ModelInvalid       Code = "MODEL_INVALID"
	UnknownModel       Code = "UNKNOWN_MODEL"
	RunEnded           Code = "RUN_ENDED"
	RunInterrupted     Code = "RUN_INTERRUPTED"
	RunAbandoned       Code = "RUN_ABANDONED"
	GatewayFrozen      Code = "GATEWAY_FROZEN"
	ShuttingDown       Code = "SHUTTING_DOWN"
	ResultExpired      Code = "RESULT_EXPIRED"
	PermitRefused      Code = "PERMIT_REFUSED"
	JournalUnavailable Code = "JOURNAL_UNAVAILABLE"
	AttestationFailed  Code = "ATTESTATION_FAILED"
	OutcomeUnknown     Code = "OUTCOME_UNKNOWN"
	ExecutedElsewhere  Code = "EXECUTED_ELSEWHERE"
	Unreported         Code = "UNREPORTED"
	RanOther           Code = "RAN_OTHER"
	Ungoverned         Code = "UNGOVERNED"

	ApprovalRequired     Code = "APPROVAL_REQUIRED"
	RequestReasonNeeded  Code = "REQUEST_REASON_NEEDED"
	ApprovalDenied       Code = "APPROVAL_DENIED"
	ApprovalExpired      Code = "APPROVAL_EXPIRED"
	ApprovalCancelled    Code = "APPROVAL_CANCELLED"
	ApprovalRevoked      Code = "APPROVAL_REVOKED"
	ApprovalConflict     Code = "APPROVAL_CONFLICT"
	ApprovalLimit        Code = "APPROVAL_LIMIT"
	ApprovalUnattainable Code = "APPROVAL_UNATTAINABLE"
	StillWaiting         Code = "STILL_WAITING"
	ChangePending        Code = "CHANGE_PENDING"
	BindingMismatch      Code = "APPROVAL_BINDING_MISMATCH"
	DigestMismatch       Code = "DIGEST_MISMATCH"
	PresenceNotProven    Code = "PRESENCE_NOT_PROVEN"

	Unauthenticated     Code = "UNAUTHENTICATED"
	CertificateExpired  Code = "CERTIFICATE_EXPIRED"
	KeyReplaced         Code = "KEY_REPLACED"
	LoginRefused        Code = "LOGIN_REFUSED"
	LoginUnavailable    Code = "LOGIN_UNAVAILABLE"
	PermissionDenied    Code = "PERMISSION_DENIED"
	RateLimited         Code = "RATE_LIMITED"
	NotFound            Code = "NOT_FOUND"
	AlreadyExists       Code = "ALREADY_EXISTS"
	IdempotencyMismatch Code = "IDEMPOTENCY_MISMATCH"
	SecretExpired       Code = "SECRET_EXPIRED"
	SecretEnded         Code = "SECRET_ENDED"
	LossNotAccepted     Code = "LOSS_NOT_ACCEPTED"
	LastOwner           Code = "LAST_OWNER"
	PairingFailed       Code = "PAIRING_FAILED"
	VerificationFailed  Code = "VERIFICATION_FAILED"
	OriginUnproven      Code = "ORIGIN_UNPROVEN"
	VaultLocked         Code = "VAULT_LOCKED"
	VaultKeyMissing     Code = "VAULT_KEY_MISSING"
	SecretUnreadable    Code = "SECRET_UNREADABLE" //nolint:gosec // a word
	ConfigInvalid       Code = "CONFIG_INVALID"
	NotConnected        Code = "NOT_CONNECTED"
	Internal            Code = "INTERNAL"
)

// Exit codes of the CLI.
const (
	ExitOK           = 0
	ExitFailure      = 1
	ExitUsage        = 2
	ExitPolicyDenied = 3
	ExitDenied       = 4
	ExitExpired      = 5
	ExitNotConnected = 6
	ExitConflict     = 7
	ExitVerification = 8
	ExitSandbox      = 9
	ExitUnproven     = 10
	ExitPending      = 11
	ExitTimedOut     = 124
	// ExitInterrupted is the conventional exit code after Ctrl-C.
	ExitInterrupted = 130
)

// ExitCodes lists the meanings of the exit codes.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "success; for `palyra call`, the tool ran, and its own exit code is in the result"},
	{ExitFailure, "failure"},
	{ExitUsage, "wrong usage or input"},
	{ExitPolicyDenied, "denied by policy"},
	{ExitDenied, "approval denied, or required without a person who can answer"},
	{ExitExpired, "approval or secret expired"},
	{ExitNotConnected, "not connected, or the caller is not known to the gateway"},
	{ExitConflict, "conflict: already decided, or different from the approved call"},
	{ExitVerification, "verification failed"},
	{ExitSandbox, "sandbox unavailable"},
	{ExitUnproven, "integrity verified, but origin not proven: the key set does not contain the journal's keys"},
	{ExitPending, "pending: the change needs a second approver and is not applied yet"},
	{ExitTimedOut, "the tool ran into its deadline"},
	{ExitInterrupted, "interrupted (Ctrl-C)"},
}

// Row is the text of a code for every interface.
type Row struct {
	Code Code
	// Exit is the CLI's exit code.
	Exit int
	// Sentence is plain and public, for the console and agents.
	Sentence string
	// Remedy is the default next step.
	Remedy string
}

// Table holds one row per code.
var Table = []Row{
	{InvalidInput, ExitUsage, "The input is not valid for the tool or method.", "Correct the named field and send it again."},
	{DuplicateKey, ExitUsage, "The JSON has the same key twice, or two keys that differ only in case.", "Send each key once."},
	{NumberNotExact, ExitUsage, "A number cannot be held exactly by a double.", "Send the number as a string."},
	{InvalidUTF8, ExitUsage, "The text is not valid UTF-8 or holds a NUL.", "Send valid UTF-8 without NUL; encode binary data as base64."},
	{InputTooLarge, ExitUsage, "The input is larger than the limit.", "Send less, or put the data in a workspace file."},
	{InputTooDeep, ExitUsage, "The JSON is nested too deeply.", "Flatten the input."},
	{UnknownTool, ExitUsage, "The tool does not exist for this caller.", "List the tools with `palyra tools`."},
	{UnknownWorkspace, ExitUsage, "The workspace was not declared.", "Declare it under [[workspaces]] in palyra.toml, or name another."},
	{WorkspaceScope, ExitPolicyDenied, "The path leaves the workspace.", "Use a path inside the workspace."},
	{ProtectedPath, ExitPolicyDenied, "The path is protected.", "Change another file, or edit this one yourself."},
	{PatchConflict, ExitConflict, "The patch does not fit the current file.", "Read the file again and make the patch from its current text."},
	{CommitRefused, ExitPolicyDenied, "The changes of the program were not committed; the workspace is unchanged.", "Leave the protected files alone, or ask the operator to allow the change."},
	{CommitConflict, ExitConflict, "The workspace changed meanwhile; none of the program's changes were committed.", "Run the program again on the current workspace."},
	{FileNotFound, ExitFailure, "The workspace has no such file.", "List the directory with fs.list."},
	{HostInvalid, ExitUsage, "The host is not a plain host name or address.", "Use an ASCII host name or an IP address."},
	{EgressDenied, ExitPolicyDenied, "The destination is not allowed.", "Ask the operator to add the host to http.allowed_hosts, or for programs to process_runner.allowed_egress_hosts."},
	{FetchFailed, ExitFailure, "The request did not complete.", "Check that the host answers, then try again."},
	{ExecutableDenied, ExitPolicyDenied, "The program may not be started.", "Use another program, or ask the operator to allow it in process_runner.allowed_executables."},
	{InlineCode, ExitPolicyDenied, "Inline code for an interpreter is refused.", "Write the code to a workspace file and run the file."},
	{SandboxDisabled, ExitSandbox, "Running programs is disabled.", "Set process_runner.enabled = true."},
	{SandboxUnavailable, ExitSandbox, "The sandbox cannot be built on this machine.", "`palyra status` shows the missing parts; on Debian and Ubuntu: apt-get install bubblewrap."},
	{PlatformUnknown, ExitSandbox, "This platform has no such sandbox.", "Use a tool that does not need it."},
	{SpawnFailed, ExitSandbox, "The program could not be started.", "Check that the program exists and is executable."},
	{TimedOut, ExitTimedOut, "The call ran into its deadline and was stopped.", "Do less in one call, or raise timeout_ms within the operator's limit."},
	{QuotaExceeded, ExitFailure, "The call used up a resource limit and was stopped.", "Do less in one call, or ask the operator to raise the limit."},
	{UpstreamUnavailable, ExitFailure, "An upstream server cannot be reached, does not start, or broke the protocol.", "Read the message. The next call of the server tries it again; `palyra mcp refresh NAME` tries it now."},
	{UpstreamLogin, ExitFailure, "An upstream server requires a login, and none exists or it ended.", "Log in with `palyra mcp login SERVER`, and make the call again."},
	{ToolFailed, ExitFailure, "The tool failed.", "Read the error, correct the call and try again."},
	{Cancelled, ExitFailure, "The call was cancelled.", "Start it again if it is still wanted."},
	{PolicyDenied, ExitPolicyDenied, "Policy does not allow this call.", "Ask an operator; `palyra policy check` and the journal show the rule."},
	{PolicyError, ExitPolicyDenied, "Policy could not be evaluated, so the call is denied.", "Ask an operator to run `palyra policy check`."},
	{PolicyInvalid, ExitFailure, "The policy set does not load.", "Run `palyra policy check` and correct its findings."},
	{ToolSuspended, ExitPolicyDenied, "The tool is suspended.", "Ask an operator to correct the policy that does not fit its definition, then `palyra policy reload`."},
	{BudgetExceeded, ExitPolicyDenied, "The run or session has used all its calls.", "Start a new run, or ask a person to end the session with `palyra sessions end`, or to raise max_calls_per_run or max_calls_per_session."},
	{FactsChanged, ExitConflict, "The facts of the call changed at each evaluation.", "Propose the call again when the other calls have ended."},
	{ModelBudget, ExitPolicyDenied, "The run used up its tokens.", "Start another run with the rest of the task, or ask an operator to raise runs.max_tokens."},
	{TimeBudget, ExitPolicyDenied, "The run exceeded its time limit.", "Start another run with the rest of the task, or ask an operator to raise runs.max_duration."},
	{ModelUnavailable, ExitFailure, "The model's provider cannot be reached or has a fault.", "Try again later; look at the provider's status and at the model's base_url."},
	{ModelRejected, ExitFailure, "The model's provider rejected the request.", "Check the model's name, API key and limits in palyra.toml."},
	{ModelInvalid, ExitFailure, "The model's provider sent a response that its wire format does not allow.", "Check that the model's provider and base_url belong together."},
	{UnknownModel, ExitUsage, "No model of that name is configured.", "Add it as [[models]] to palyra.toml, or choose a configured one."},
	{RunEnded, ExitConflict, "The run has ended.", "Start another one."},
	{RunInterrupted, ExitFailure, "The gateway stopped during the run.", "Review the run with `palyra runs show`, then start another one."},
	{RunAbandoned, ExitFailure, "The run's client disconnected and did not return.", "Start another run for the remaining work, or ask an operator to raise runs.abandoned_after."},
	{GatewayFrozen, ExitPolicyDenied, "An operator has frozen the gateway; nothing runs.", "Wait, or ask for `palyra thaw`."},
	{ResultExpired, ExitFailure, "It is no longer stored; only its digest is.", "Raise results.retention to keep future results longer."},
	{ShuttingDown, ExitNotConnected, "The gateway is stopping.", "Try again when it is back."},
	{PermitRefused, ExitFailure, "The call has no valid permit.", "Propose the call again."},
	{JournalUnavailable, ExitFailure, "The journal cannot be written, so nothing runs.", "Ask an operator to look at disk space and `palyra status`."},
	{AttestationFailed, ExitFailure, "The call ran but its attestation could not be created.", "Ask an operator to look at the daemon's log."},
	{OutcomeUnknown, ExitFailure, "The gateway stopped while the call ran; its outcome is unknown.", "Check the effects of the call before you repeat it."},
	{ExecutedElsewhere, ExitUsage, "The tool belongs to an agent, which runs it itself and asks through its hook.", "Use one of the gateway's tools: `palyra tools`."},
	{Unreported, ExitFailure, "The call was allowed, and the agent did not report its end.", "Check its effects; `palyra hook status` shows whether the agent's hooks report."},
	{RanOther, ExitFailure, "The agent reports that it ran something other than the decided call.", "Check the agent's actions, and other hooks that change its calls: `palyra hook status`."},
	{Ungoverned, ExitFailure, "The agent reports that it ran a call that was not allowed.", "Check the agent's actions, and how they bypass its hook: `palyra hook status`."},
	{ApprovalRequired, ExitDenied, "A person must approve this call.", "Answer it with `palyra approvals decide`."},
	{RequestReasonNeeded, ExitDenied, "Policy requires a reason before people are asked; no one was asked.", "Make the same call again with the reason: `palyra call --reason TEXT`."},
	{ApprovalDenied, ExitDenied, "A human denied the call.", "Do not repeat it; choose another way or ask the person why."},
	{ApprovalExpired, ExitExpired, "The call was not approved in time.", "Ask an operator to be ready, then propose it again."},
	{ApprovalCancelled, ExitDenied, "The request for approval was withdrawn.", "Propose the call again if it is still wanted."},
	{ApprovalRevoked, ExitDenied, "The approval was revoked before it was used.", "Propose the call again if it is still wanted."},
	{ApprovalConflict, ExitConflict, "The approval was already decided.", "Look at it with `palyra approvals show`."},
	{ApprovalLimit, ExitPolicyDenied, "Too many approvals are waiting or were asked for.", "Wait until some are answered."},
	{ApprovalUnattainable, ExitPolicyDenied, "No member exists who could approve this call.", "Ask an operator to add a member with the role that policy requires: `palyrad operator add`."},
	{ChangePending, ExitPending, "The change waits for a second person, and is applied once they approve.", "Another person answers with `palyra approve`; `palyra approvals list` shows the request."},
	{StillWaiting, ExitExpired, "The client's time limit for a call has passed; the call continues without it.", "Make the same call again: it resumes."},
	{BindingMismatch, ExitConflict, "The call is no longer the one that was approved.", "Propose it again; the changed fields are named."},
	{DigestMismatch, ExitConflict, "The digest does not match the pending call.", "Look at it again with `palyra approvals show` and use the digest it prints."},
	{PresenceNotProven, ExitPolicyDenied, "The vote does not prove the presence of its voter, and was not counted.", "Vote with --present. `palyra key presence --passphrase` creates the key for it."},
	{Unauthenticated, ExitNotConnected, "The caller is not known to the gateway.", "Use a credential: `palyrad operator add NAME --role ROLE` makes one."},
	{CertificateExpired, ExitNotConnected, "The client certificate has expired.", "Renew it within 30 days of its end: every `palyra` command does so automatically. Later, create another one with `palyrad operator bundle NAME` on the gateway's host."},
	{KeyReplaced, ExitNotConnected, "The device's key was replaced by a newer one.", "Use the bundle with the newer key; if none of yours has it, create another one with `palyrad operator bundle NAME --revoke-old` on the gateway's host."},
	{LoginRefused, ExitPolicyDenied, "The identity provider did not confirm the person, or the gateway does not admit them.", "Begin again with `palyra login`; if it is refused again, ask the gateway's administrator."},
	{LoginUnavailable, ExitNotConnected, "The gateway cannot reach an identity provider now.", "Try again later; other credentials are not affected."},
	{PermissionDenied, ExitPolicyDenied, "The caller may not do this.", "Ask an owner for a role that may."},
	{RateLimited, ExitFailure, "Too many requests.", "Wait as long as retry-after says."},
	{NotFound, ExitFailure, "Nothing has that id.", "Check the id."},
	{AlreadyExists, ExitConflict, "It exists already.", "Choose another name or id."},
	{IdempotencyMismatch, ExitConflict, "The idempotency key was used for a different call.", "Use a new key for a new call."},
	{SecretExpired, ExitExpired, "The secret has expired.", "Put a new value: `palyra vault put REF --expires DURATION`."},
	{SecretEnded, ExitExpired, "The agent has another owner, or the skill another publisher's key, than when the secret was put.", "Store your own value with `palyra vault put REF`, or remove the secret with `palyra vault rm REF`."},
	{LossNotAccepted, ExitUsage, "The change removes a member's power to answer approvals.", "Repeat it with --yes if that is intended; accept_loss in the API."},
	{LastOwner, ExitConflict, "The gateway would be without an owner who can act.", "Make another owner first: `palyra members roles NAME --add owner`, or `palyra members add NAME --role owner`."},
	{PairingFailed, ExitVerification, "The machine and the gateway do not have the same secret, or their connection is intercepted.", "Pair again, and type the PIN as `palyra pairing code` shows it."},
	{VerificationFailed, ExitVerification, "The evidence does not verify.", "Keep the file as it is and compare it with another copy."},
	{OriginUnproven, ExitUnproven, "The journal is intact, but its origin was not proven.", "Fetch the key set again with `palyra attest keys -o json` and compare its fingerprint over another channel."},
	{VaultLocked, ExitNotConnected, "The key of the vault is not accessible now.", "Unlock the keyring of the session in which palyrad runs, or name the passphrase in vault.passphrase_file; `palyrad doctor` shows the problem."},
	{VaultKeyMissing, ExitFailure, "The key of the vault is missing.", "Restore the state directory, and the keyring if it holds the key, from a backup of the same time."},
	{SecretUnreadable, ExitVerification, "The encrypted data is damaged, or belongs to another object.", "Restore it from a backup."},
	{ConfigInvalid, ExitUsage, "The configuration is not valid.", "Run `palyra config check`."},
	{NotConnected, ExitNotConnected, "The gateway cannot be reached.", "Start it with `palyrad`, or set the address."},
	{Internal, ExitFailure, "The gateway has a fault.", "Look at the daemon's log."},
}

var rows = func() map[Code]Row {
	m := make(map[Code]Row, len(Table))
	for _, r := range Table {
		m[r.Code] = r
	}
	return m
}()

// Lookup returns the row of a code; an unknown code gets the row of Internal.
func Lookup(c Code) Row {
	if r, ok := rows[c]; ok {
		return r
	}
	return rows[Internal]
}

// Error is an error with a reason: the failure and the next step. Its message may be sent to the
// caller, its cause MUST NOT.
type Error struct {
	Code    Code
	Message string
	// Remedy is the next step; empty means the default of the code.
	Remedy string
	// Fields are details such as the field or digest that differs.
	Fields map[string]string
	cause  error
}

// Errorf returns an Error; a %w verb sets its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// WithRemedy returns a copy of e with its own remedy.
func (e *Error) WithRemedy(format string, args ...any) *Error {
	copied := *e
	copied.Remedy = fmt.Sprintf(format, args...)
	return &copied
}

// WithField returns a copy of e with an additional detail.
func (e *Error) WithField(name, value string) *Error {
	copied := *e
	copied.Fields = make(map[string]string, len(e.Fields)+1)
	for k, v := range e.Fields {
		copied.Fields[k] = v
	}
	copied.Fields[name] = value
	return &copied
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an Error with the same code, so that a bare
// &Error{Code: c} can be a target of errors.Is.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code && other.Message == ""
}

// NextStep returns the remedy, or the default remedy of the code. The remedy of an error caused
// by the limit of open files takes precedence over both.
func (e *Error) NextStep() string {
	if step := OutOfFiles(e.cause); step != "" {
		return step
	}
	if e.Remedy != "" {
		return e.Remedy
	}
	return Lookup(e.Code).Remedy
}

// Of returns the code of the first Error in err's chain, Internal for any
// other error, and "" for nil.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Known returns the first Error in err's chain, or else an Error with the code otherwise that
// wraps err.
func Known(err error, otherwise Code) *Error {
	var known *Error
	if !errors.As(err, &known) {
		known = Errorf(otherwise, "%w", err)
	}
	return known
}
