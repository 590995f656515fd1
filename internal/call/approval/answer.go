package approval

import (
	"fmt"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// Kind is the source of an answer.
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
	// ByJoin is the answer given for the same call when an agent's hook announced it.
	ByJoin Kind = "joined"
)

// Answer is the desk's result for an Ask. Only this package creates an Answer that allows; its
// zero value allows nothing.
//
// An answer that allows MUST be consumed in the transaction that records the decision, or released.
// It MUST NOT be used for a call with another digest.
type Answer struct {
	kind        Kind
	approvalID  string
	proposalID  string
	version     int64
	subjectType SubjectType
	grant       Grant
	votes       []Vote
	callDigest  string
	// joins is the proposal that this answer was given for first, when its agent announced the
	// call.
	joins   string
	amended *Amended
	code    reason.Code
	message string
	remedy  string
}

// NotNeeded is the answer for a verdict that allows without an approval.
func NotNeeded() Answer { return Answer{kind: NotAsked} }

// Kind returns the source of the answer.
func (a Answer) Kind() Kind { return a.kind }

// Allowed reports whether the call may proceed to a decision.
func (a Answer) Allowed() bool {
	return a.kind == ByApproval || a.kind == ByGrant || a.kind == NotAsked || a.kind == ByJoin
}

// Join converts an approval of an announced call to an answer for the call itself. The approval
// was requested when the agent announced the call as proposal, and was consumed then. The
// caller must verify that this is the announced call. Join returns false unless the kind of the
// answer is ByApproval or ByGrant.
func (a Answer) Join(proposal, callDigest string) (Answer, bool) {
	if a.kind != ByApproval && a.kind != ByGrant {
		return Answer{}, false
	}
	a.kind, a.joins, a.callDigest = ByJoin, proposal, callDigest
	return a, true
}

// Joins returns the proposal that the answer was given for first; "" unless the kind is ByJoin.
func (a Answer) Joins() string { return a.joins }

// Standing reports whether the votes come from a grant.
func (a Answer) Standing() bool { return a.grant.ID != "" }

// ApprovalID returns the id of the record that answered, or of the record whose votes created
// the grant that answered.
func (a Answer) ApprovalID() string {
	if a.kind == ByJoin {
		return "" // the announced call consumed it
	}
	return a.approvalID
}

// GrantID returns the grant that answered; "" unless the kind is ByGrant.
func (a Answer) GrantID() string { return a.Grant().ID }

// Grant returns the grant that answered, in its state at that time; the zero value unless the
// kind is ByGrant.
func (a Answer) Grant() Grant {
	if a.kind == ByJoin {
		return Grant{}
	}
	return a.grant
}

// Votes returns the votes of the answer, for evaluating policy again.
func (a Answer) Votes() []Vote { return slices.Clone(a.votes) }

// CallDigest returns the digest of the call that the answer is for; "" for NotNeeded.
func (a Answer) CallDigest() string { return a.callDigest }

// Reason returns the code of the refusal; "" if the answer allows.
func (a Answer) Reason() reason.Code { return a.code }

// Message returns the text of the refusal for the caller.
func (a Answer) Message() string { return a.message }

// Remedy returns the caller's next step.
func (a Answer) Remedy() string {
	if a.remedy != "" || a.code == "" {
		return a.remedy
	}
	return reason.Lookup(a.code).Remedy
}

// answerOf returns the answer that a settled record gives to a call.
func answerOf(rec *Record) *Answer {
	a := &Answer{
		approvalID: rec.ID, version: rec.Version, subjectType: rec.SubjectType, votes: slices.Clone(rec.Votes),
		callDigest: rec.CallDigest,
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
		a.message = fmt.Sprintf("%s was not approved within %s", rec.what(), rec.ExpiresAt.Sub(rec.CreatedAt))
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

// what names the subject of the record in messages.
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

// answerOfGrant returns the allowing answer of a grant for a call that it covers.
func answerOfGrant(g Grant, ask Ask) Answer {
	return Answer{
		kind: ByGrant, approvalID: g.ApprovalID, proposalID: ask.Proposal.ID, version: g.Version, grant: g,
		votes: slices.Clone(g.MintedBy), callDigest: ask.CallDigest,
	}
}

// removedAnswer returns the answer for a waiter whose own context ended.
func removedAnswer(rec *Record, why string) *Answer {
	return &Answer{
		kind: ByCancel, approvalID: rec.ID, version: rec.Version, callDigest: rec.CallDigest,
		code: reason.Cancelled, message: why,
	}
}

// Amended describes how an approved call was edited: the approved arguments and the editors. It is
// nil for an unedited call.
type Amended struct {
	Input []byte
	Edits []Edit
}

// Amended returns the edits of the call, or nil.
func (a Answer) Amended() *Amended { return a.amended }

// By returns the users who edited the call, without duplicates.
func (a *Amended) By() []string {
	var names []string
	for _, e := range a.Edits {
		if name := e.By.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// EditOf returns the edit for the result of an edited call.
func (a *Amended) EditOf(approvalID string, changes []tool.Difference) *tool.Edited {
	return &tool.Edited{
		ApprovalID: approvalID, By: a.By(), Reason: tool.RedactText(a.Edits[len(a.Edits)-1].Reason),
		Proposed: a.Edits[0].WasDigest, Changes: changes,
	}
}

// editedNote is the prompt's note about the editors of the call.
func editedNote(edits []Edit) string {
	last := edits[len(edits)-1]
	text := fmt.Sprintf("%s changed this call after it was proposed. Earlier votes do not count.", last.By)
	if last.Reason != "" {
		text += " They say: " + last.Reason
	}
	return text
}
