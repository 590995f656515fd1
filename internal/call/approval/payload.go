package approval

import (
	"fmt"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
)

// daemon is the actor of what nobody asked for, such as expiry.
const daemon = "service:palyrad"

// AskedPayload is of event.Asked.
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
	// RequesterReason is why the requester wants it; "" when they said nothing.
	RequesterReason string `json:"requester_reason,omitempty"`
	// PromptDigest is of the prompt that is shown, RFC 8785 JSON.
	PromptDigest string    `json:"prompt_digest"`
	ExpiresAt    time.Time `json:"expires_at"`
}

// JoinedPayload is of event.Joined.
type JoinedPayload struct {
	ApprovalID string `json:"approval_id"`
	ProposalID string `json:"proposal_id"`
}

// VotedPayload is of event.Voted.
type VotedPayload struct {
	ApprovalID string `json:"approval_id"`
	CallDigest string `json:"call_digest"`
	Version    int64  `json:"version"`
	Vote       Vote   `json:"vote"`
	Missing    string `json:"missing"`
}

// StatePayload is of event.Answered, Expired, Cancelled, Consumed and Revoked.
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

// GrantUsedPayload is of event.GrantUsed.
type GrantUsedPayload struct {
	GrantID    string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	// ProposalID is of the call that used it.
	ProposalID string `json:"proposal_id"`
	CallDigest string `json:"call_digest"`
	Uses       int64  `json:"uses"`
	// MostUses is how many there may be; 0 for no such bound.
	MostUses int64 `json:"most_uses,omitempty"`
}

// GrantClosedPayload is of event.GrantRevoked and event.GrantEnded.
type GrantClosedPayload struct {
	GrantID    string `json:"grant_id"`
	ApprovalID string `json:"approval_id"`
	By         string `json:"by"`
	Note       string `json:"note"`
	Uses       int64  `json:"uses"`
}

// FreezePayload is of event.Frozen and event.Thawed.
type FreezePayload struct {
	By     access.Principal `json:"by"`
	Reason string           `json:"reason"`
	// Since is when the gateway was frozen.
	Since time.Time `json:"since"`
}

func draft(code event.Code, session, run, actor, subject string, payload any) (event.Draft, error) {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return event.Draft{}, fmt.Errorf("making event %s: %w", code, err)
	}
	return event.Draft{Code: code, Session: session, Run: run, Actor: actor, Subject: subject, Payload: text}, nil
}

func recordDraft(code event.Code, r Record, actor string, payload any) (event.Draft, error) {
	return draft(code, r.Session, r.Run, actor, r.ID, payload)
}

// askedEvents journals a new record.
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

// stateEvents journals a transition that needs nothing but its state.
func stateEvents(code event.Code, was State) func(Record) ([]event.Draft, error) {
	return func(r Record) ([]event.Draft, error) {
		d, err := recordDraft(code, r, r.ChangedBy, StatePayload{
			ApprovalID: r.ID, CallDigest: r.CallDigest, State: r.State, Was: was,
			Version: r.Version, By: r.ChangedBy, Note: r.Note, GrantID: r.GrantID,
		})
		return []event.Draft{d}, err
	}
}

// voteEvents journals the last vote and, when it settled the record, the
// answer.
func voteEvents(r Record) ([]event.Draft, error) {
	v := r.Votes[len(r.Votes)-1]
	voted, err := recordDraft(event.Voted, r, v.User.String(), VotedPayload{
		ApprovalID: r.ID, CallDigest: r.CallDigest, Version: r.Version, Vote: v, Missing: r.Missing,
	})
	if err != nil || r.State == Pending {
		return []event.Draft{voted}, err
	}
	answered, err := stateEvents(event.Answered, Pending)(r)
	return append([]event.Draft{voted}, answered...), err
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
