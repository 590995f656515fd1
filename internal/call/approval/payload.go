package approval

import (
	"time"

	"palyra/internal/core/access"
)

// AskedPayload is the payload of event.Asked.
type AskedPayload struct {
	ApprovalID     string           `json:"approval_id"`
	ProposalID     string           `json:"proposal_id"`
	CallDigest     string           `json:"call_digest"`
	SnapshotDigest string           `json:"snapshot_digest"`
	SubjectType    SubjectType      `json:"subject_type"`
	SubjectID      string           `json:"subject_id"`
	Tool           string           `json:"tool"`
	RequestedBy    access.Principal `json:"requested_by"`
	OnBehalfOf     access.Principal `json:"on_behalf_of"`
	Severity       string           `json:"severity"`
	Summary        string           `json:"summary"`
	// RequesterReason is the requester's reason, or "".
	RequesterReason string `json:"requester_reason,omitempty"`
	// PromptDigest is the digest of the displayed prompt, RFC 8785 JSON.
	PromptDigest string    `json:"prompt_digest"`
	ExpiresAt    time.Time `json:"expires_at"`
}

// JoinedPayload is the payload of event.Joined.
type JoinedPayload struct {
	ApprovalID string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
}

// StatePayload is the payload of event.Answered, Expired, Cancelled, Consumed and Revoked.
type StatePayload struct {
	ApprovalID string `json:"approval_id"`
	CallDigest string `json:"call_digest"`
	State      State  `json:"state"`
	Was        State  `json:"was"`
	Version    int64  `json:"version"`
	By         string `json:"by"`
	Note       string `json:"note"`
	GrantID    string `json:"grant_id,omitempty"`
}

// GrantUsedPayload is the payload of event.GrantUsed.
type GrantUsedPayload struct {
	GrantID    string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	// ProposalID identifies the call that used it.
	ProposalID string `json:"proposal_id"`
	CallDigest string `json:"call_digest"`
	Uses       int64  `json:"uses"`
	// MostUses is the maximum number of uses; 0 means unlimited.
	MostUses int64 `json:"most_uses,omitempty"`
}
