package approval

import (
	"fmt"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
)

// daemon is the actor of transitions without a requester, such as expiry.
const daemon = "service:palyrad"

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

func draft(code event.Code, session, run, actor, subject string, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, fmt.Errorf("creating event %s: %w", code, err)
	}
	return event.Draft{Code: code, Session: session, Run: run, Actor: actor, Subject: subject, Payload: text}, nil
}

func recordDraft(code event.Code, r Record, actor string, payload any) (event.Draft, error) {
	return draft(code, r.Session, r.Run, actor, r.ID, payload)
}

// askedEvents drafts the event of a new record.
func askedEvents(r Record) ([]event.Draft, error) {
	digest, err := canonical.DigestOf(r.Prompt)
	if err != nil {
		return nil, err
	}
	d, err := recordDraft(event.Asked, r, r.RequestedBy.String(), AskedPayload{
		ApprovalID: r.ID, ProposalID: r.ProposalID, CallDigest: r.CallDigest, SnapshotDigest: r.SnapshotDigest,
		SubjectType: r.SubjectType, SubjectID: r.SubjectID, Tool: r.Binding.Tool,
		RequestedBy: r.RequestedBy, OnBehalfOf: r.OnBehalfOf, Severity: r.Severity,
		Summary: r.Prompt.Summary, RequesterReason: r.Prompt.RequesterReason, PromptDigest: digest, ExpiresAt: r.ExpiresAt,
	})
	return []event.Draft{d}, err
}

// stateEvents drafts the event of a transition that only changes the state.
func stateEvents(code event.Code, was State) func(Record) ([]event.Draft, error) {
	return func(r Record) ([]event.Draft, error) {
		d, err := recordDraft(code, r, r.ChangedBy, StatePayload{
			ApprovalID: r.ID, CallDigest: r.CallDigest, State: r.State, Was: was,
			Version: r.Version, By: r.ChangedBy, Note: r.Note, GrantID: r.GrantID,
		})
		return []event.Draft{d}, err
	}
}

func grantDraft(code event.Code, g Grant, actor string, payload any) (event.Draft, error) {
	return draft(code, g.Session, g.Run, actor, g.ID, payload)
}

func grantEvents(code event.Code, actor string, payload func(Grant) any) func(Grant) ([]event.Draft, error) {
	return func(g Grant) ([]event.Draft, error) {
		d, err := grantDraft(code, g, actor, payload(g))
		return []event.Draft{d}, err
	}
}
