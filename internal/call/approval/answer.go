package approval

import (
	"encoding/json"
	"fmt"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// Kind is how a proposal was answered.
type Kind string

// The kinds of answers. None is the zero value and allows nothing.
const (
	None       Kind = ""
	ByApproval Kind = "approval"
	ByGrant    Kind = "grant"
	NotAsked   Kind = "not_needed"
	ByDenial   Kind = "denied"
	ByExpiry   Kind = "expired"
	ByCancel   Kind = "cancelled"
	// ByJoin is what people said of the same call when an agent's hook announced it.
	ByJoin Kind = "joined"
)

// Answer is what the desk says of an ask. Only this package makes one that
// allows; its zero value allows nothing.
type Answer struct {
	kind           Kind
	approvalID     string
	proposalID     string
	version        int64
	subjectType    SubjectType
	grant          Grant
	votes          []Vote
	callDigest     string
	snapshotDigest string
	// joins is the proposal whose answer this was first, of a call that its agent
	// announced.
	joins   string
	amended *Amended
	code    reason.Code
	message string
	remedy  string
}

// NotNeeded is the answer for a verdict that allows without asking.
func NotNeeded() Answer { return Answer{kind: NotAsked} }

// Kind returns how it was answered.
func (a Answer) Kind() Kind { return a.kind }

// Allowed reports whether the call may go on to a decision.
func (a Answer) Allowed() bool {
	return a.kind == ByApproval || a.kind == ByGrant || a.kind == NotAsked || a.kind == ByJoin
}

// Join is the yes of people for the call that they were asked about when its agent
// announced it as proposal: the approval was used up then, and this is the one call
// that it was for. That it is, is the caller's to see to. What nobody said yes to
// becomes nothing.
func (a Answer) Join(proposal, callDigest string) (Answer, bool) {
	if a.kind != ByApproval && a.kind != ByGrant {
		return Answer{}, false
	}
	a.kind, a.joins, a.callDigest = ByJoin, proposal, callDigest
	return a, true
}

// Joins returns the proposal that the answer was first for; "" unless the kind is
// ByJoin.
func (a Answer) Joins() string { return a.joins }

// Standing reports whether the votes come from a grant.
func (a Answer) Standing() bool { return a.grant.ID != "" }

// ApprovalID returns the id of the record that answered, or whose votes minted the
// grant that did.
func (a Answer) ApprovalID() string {
	if a.kind == ByJoin {
		return "" // it was used by the call that was announced
	}
	return a.approvalID
}

// GrantID returns the grant that answered; "" unless the kind is ByGrant.
func (a Answer) GrantID() string { return a.Grant().ID }

// Grant returns the grant that answered, as it was then; the zero value unless
// the kind is ByGrant.
func (a Answer) Grant() Grant {
	if a.kind == ByJoin {
		return Grant{}
	}
	return a.grant
}

// Version returns the version that the record or grant had when it answered.
func (a Answer) Version() int64 { return a.version }

// Votes returns the votes that made the answer, for evaluating policy again.
func (a Answer) Votes() []Vote { return slices.Clone(a.votes) }

// CallDigest returns the digest of the call that the answer is for; "" for
// NotNeeded.
func (a Answer) CallDigest() string { return a.callDigest }

// SnapshotDigest returns the snapshot under which the record was asked.
func (a Answer) SnapshotDigest() string { return a.snapshotDigest }

// Reason returns why it does not allow; "" when it does.
func (a Answer) Reason() reason.Code { return a.code }

// Message says the reason in words for the caller.
func (a Answer) Message() string { return a.message }

// Remedy says what the caller can do next.
func (a Answer) Remedy() string {
	if a.remedy != "" || a.code == "" {
		return a.remedy
	}
	return reason.Lookup(a.code).Remedy
}

// MarshalJSON writes the answer for the journal and the tape.
func (a Answer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind       Kind        `json:"kind"`
		ApprovalID string      `json:"approval_id,omitempty"`
		GrantID    string      `json:"grant_id,omitempty"`
		Version    int64       `json:"version,omitempty"`
		CallDigest string      `json:"call_digest,omitempty"`
		Voters     []string    `json:"voters,omitempty"`
		Reason     reason.Code `json:"reason,omitempty"`
		Message    string      `json:"message,omitempty"`
	}{a.kind, a.approvalID, a.grant.ID, a.version, a.callDigest, voters(a.votes), a.code, a.message})
}

func voters(votes []Vote) []string {
	names := make([]string, 0, len(votes))
	for _, v := range votes {
		names = append(names, v.User.String())
	}
	return names
}

// answerOf is the answer that a record which no longer waits gives to a call.
func answerOf(rec *Record) *Answer {
	a := &Answer{
		approvalID: rec.ID, version: rec.Version, subjectType: rec.SubjectType, votes: slices.Clone(rec.Votes),
		callDigest: rec.CallDigest, snapshotDigest: rec.SnapshotDigest,
	}
	switch rec.State {
	case Allowed:
		a.kind = ByApproval
		if len(rec.Edits) > 0 && rec.Input != nil {
			a.amended = &Amended{Input: slices.Clone(rec.Input), Edits: slices.Clone(rec.Edits)}
		}
	case Denied:
		a.kind, a.code = ByDenial, reason.ApprovalDenied
		a.message = "a person denied " + rec.what()
		if rec.Note != "" {
			a.message += ": " + text.Visible(rec.Note)
		}
	case Expired:
		a.kind, a.code = ByExpiry, reason.ApprovalExpired
		a.message = fmt.Sprintf("nobody approved %s within %s", rec.what(), rec.ExpiresAt.Sub(rec.CreatedAt))
	case Cancelled:
		a.kind, a.code = ByCancel, reason.ApprovalCancelled
		a.message = "the request for approval was withdrawn"
	case Revoked:
		a.kind, a.code = ByCancel, reason.ApprovalRevoked
		a.message = "the approval was revoked before it was used"
	default:
		a.kind, a.code = ByCancel, reason.ApprovalConflict
		a.message = fmt.Sprintf("the approval is already %s", rec.State)
	}
	return a
}

// what names what is asked about.
func (r *Record) what() string {
	switch {
	case r.AboutCommit():
		return "the changes"
	case r.AboutSecret():
		return "the secret for the program"
	case r.AboutSession():
		return "more calls of the session"
	case r.SubjectType == SubjectDevicePairing:
		return "the pairing"
	case r.AboutGateway():
		return "the change of the gateway"
	}
	return "the call"
}

// answerOfGrant is the yes of a grant to a call that it covers.
func answerOfGrant(g Grant, ask Ask) Answer {
	return Answer{
		kind: ByGrant, approvalID: g.ApprovalID, proposalID: ask.Proposal.ID, version: g.Version, grant: g,
		votes: slices.Clone(g.MintedBy), callDigest: ask.CallDigest, snapshotDigest: ask.SnapshotDigest,
	}
}

// gone is the answer to a waiter whose own context ended.
func gone(rec *Record, why string) *Answer {
	return &Answer{
		kind: ByCancel, approvalID: rec.ID, version: rec.Version, callDigest: rec.CallDigest,
		snapshotDigest: rec.SnapshotDigest, code: reason.Cancelled,
		message: why,
	}
}
