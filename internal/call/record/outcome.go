package record

import (
	"palyra/internal/call/session"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

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
