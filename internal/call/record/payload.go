package record

import (
	"encoding/json"

	"palyra/internal/call/policy"
	"palyra/internal/call/session"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

// Proposed is the payload of event.Proposed.
type Proposed struct {
	ProposalID string `json:"proposal_id"`
	// CallID is the id that a model assigned to the call.
	CallID     string         `json:"call_id,omitempty"`
	Principal  string         `json:"principal"`
	OnBehalfOf string         `json:"on_behalf_of"`
	DeviceID   string         `json:"device_id"`
	Surface    access.Surface `json:"surface"`
	// Transport is the caller's connection to the gateway.
	Transport            access.Transport `json:"transport,omitempty"`
	Channel              string           `json:"channel,omitempty"`
	Tool                 string           `json:"tool"`
	ToolDefinitionDigest string           `json:"tool_definition_digest,omitempty"`
	StoredArguments
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// OpenWorld is true if the tool reads from the open world, which taints its session once
	// the call is allowed.
	OpenWorld bool `json:"open_world,omitempty"`
	// GatewaySession is the session that counts the call.
	GatewaySession string `json:"gateway_session,omitempty"`
	// Journal is the newest durable event at the time of the proposal, as in the attestation.
	Journal *attest.Journal `json:"journal,omitempty"`
}

// Edited is the payload of event.Edited: an edit of a waiting call.
type Edited struct {
	ProposalID string `json:"proposal_id"`
	ApprovalID string `json:"approval_id"`
	By         string `json:"by"`
	// WasDigest is the call digest before the edit, and CallDigest the one after it.
	WasDigest  string `json:"was_digest"`
	CallDigest string `json:"call_digest"`
	StoredArguments
}

// Refused is the payload of event.Refused.
type Refused struct {
	ProposalID string      `json:"proposal_id"`
	CallID     string      `json:"call_id,omitempty"`
	Principal  string      `json:"principal"`
	Tool       string      `json:"tool"`
	Reason     reason.Code `json:"reason"`
	Message    string      `json:"message"`
	Remedy     string      `json:"remedy,omitempty"`
	// GatewaySession is as in Proposed.
	GatewaySession string `json:"gateway_session,omitempty"`
}

// Evaluated is the payload of event.Evaluated. Request lacks the arguments, which are in the
// proposal.
type Evaluated struct {
	ProposalID string         `json:"proposal_id"`
	CallDigest string         `json:"call_digest"`
	Verdict    Verdict        `json:"verdict"`
	Request    policy.Request `json:"request"`
	// MaySend is the maximum number of bytes that the call can send out.
	MaySend int64 `json:"may_send,omitempty"`
}

// Attested is the payload of event.Attested.
type Attested struct {
	AttestationID string `json:"attestation_id"`
	ProposalID    string `json:"proposal_id"`
	DecisionID    string `json:"decision_id"`
	Tool          string `json:"tool"`
	ResultBlob    string `json:"result_blob,omitempty"`
	// ResultNotKept is true for a result that was too large to store.
	ResultNotKept bool            `json:"result_not_kept,omitempty"`
	Report        tool.Report     `json:"report"`
	Envelope      json.RawMessage `json:"envelope"`
}

// SessionExtended is the payload of event.SessionExtended.
type SessionExtended struct {
	Session   string `json:"session"`
	Principal string `json:"principal"`
	// Calls is the number of additional calls, Limit the session's new limit of calls.
	Calls      int    `json:"calls"`
	Limit      int    `json:"limit"`
	ProposalID string `json:"proposal_id"`
	ApprovalID string `json:"approval_id"`
}

// Verdict is a policy verdict in its journaled form. It describes a verdict but is not one:
// only package policy creates verdicts.
type Verdict struct {
	Effect         string               `json:"effect"`
	Determining    []policy.Determining `json:"determining"`
	GrantID        string               `json:"grant_id"`
	SnapshotDigest string               `json:"snapshot_digest"`
	PolicyVersion  string               `json:"policy_version"`
	// made is the verdict to write; a verdict that was read has none.
	made policy.Verdict
}

// MarshalJSON encodes the complete verdict.
func (v Verdict) MarshalJSON() ([]byte, error) { return v.made.MarshalJSON() }

// Shape is the shape of the verdict.
func (v Verdict) Shape() any { return v.made.Shape() }

// Gated is the payload of event.Gated.
type Gated struct {
	ProposalID string `json:"proposal_id"`
	// DecisionID identifies the decision that allowed the call.
	DecisionID string `json:"decision_id"`
	// CallDigest is the digest that an approval of the commit binds to.
	CallDigest string            `json:"call_digest"`
	Facts      tool.CommitFacts  `json:"facts"`
	Files      []tool.FileChange `json:"files,omitempty"`
	// FilesBlob is set instead of Files if they are many.
	FilesBlob string      `json:"files_blob,omitempty"`
	Allowed   bool        `json:"allowed"`
	Reason    reason.Code `json:"reason,omitempty"`
	Message   string      `json:"message,omitempty"`
	Remedy    string      `json:"remedy,omitempty"`
	// Verdict is nil if policy was not evaluated.
	Verdict    *Verdict `json:"verdict,omitempty"`
	ApprovalID string   `json:"approval_id,omitempty"`
	GrantID    string   `json:"grant_id,omitempty"`
}

// Violated is the payload of event.Violated.
type Violated struct {
	ProposalID string           `json:"proposal_id"`
	Violations []tool.Violation `json:"violations"`
	// Missed counts the violations that were not stored.
	Missed int `json:"missed"`
}

// Ambiguous is the payload of event.Ambiguous.
type Ambiguous struct {
	ProposalID string      `json:"proposal_id"`
	Reason     reason.Code `json:"reason"`
	Message    string      `json:"message"`
}

// Sighted is the payload of event.RanOther, Ungoverned, ReportedLate and Unjoined: an execution
// that an agent reported, and the decision.
type Sighted struct {
	ProposalID string `json:"proposal_id"`
	// CallID is the agent's id of the call.
	CallID     string      `json:"call_id,omitempty"`
	Principal  string      `json:"principal"`
	OnBehalfOf string      `json:"on_behalf_of"`
	Agent      string      `json:"agent"`
	Tool       string      `json:"tool"`
	Reason     reason.Code `json:"reason,omitempty"`
	Message    string      `json:"message"`
	// InputSHA256 is the digest of the reported input, DecidedSHA256 of the decided input,
	// both in canonical JSON.
	InputSHA256   string `json:"input_sha256,omitempty"`
	DecidedSHA256 string `json:"decided_sha256,omitempty"`
	// GatewaySession is as in Proposed.
	GatewaySession string `json:"gateway_session,omitempty"`
}

// SessionEnded is the payload of event.SessionEnded.
type SessionEnded struct {
	Session   string         `json:"session"`
	Principal string         `json:"principal"`
	DeviceID  string         `json:"device_id"`
	Client    session.Client `json:"client"`
	EndedBy   string         `json:"ended_by"`
	Reason    string         `json:"reason,omitempty"`
}
