package call

import (
	"context"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
)

// Submission is one request to call a tool, from an authenticated caller.
//
// The interface MUST have authenticated Caller. Input and the texts are hostile: an interface MUST
// NOT validate or interpret them in place of the pipeline. A submission MUST NOT change after Call
// began.
type Submission struct {
	Caller access.Caller
	// Asker is the receiver of the answer if it is not the caller, as with AuthZEN; otherwise
	// zero. It gets only file information that both may read.
	Asker access.Caller
	Tool  string
	// Input is the JSON that the client sent; empty means {}.
	Input []byte
	// Session and Run are names that the client declares. An empty Session means "default", and an
	// empty Run means a run of this call alone. If MaxCalls is set, Run is the gateway's id of a
	// run. The gateway counts calls by its own session ids (see package session).
	Session string
	Run     string
	Channel string
	// IdempotencyKey makes a retry return the first call instead of starting a second one.
	IdempotencyKey string
	// CallID is the id that a model assigned to the call; "" for others.
	CallID string
	// MaxCalls is set for calls of a run that the gateway drives. Such a run may make at most
	// MaxCalls calls, or Config.MaxCallsPerRun if that is less. MaxCalls is 0 for all other calls,
	// which count in their session.
	MaxCalls int
	// Precedence sets how far the writes of the call may fill a nearly full disk.
	Precedence access.Precedence
	// PriorAnswer is an earlier answer for this same call, nil for none.
	PriorAnswer *PriorAnswer
	// Lead are drafts that are written before the first event of the call and in its
	// transaction. A pipeline that is closing writes neither.
	Lead []event.Draft
	// LeadBlobs are the blobs that Lead names by digest.
	LeadBlobs [][]byte
	// Hold, unless nil, is called before a call that policy and approvers allow is decided, and
	// again before the commit of its changes is decided. It may block until the result has a
	// receiver; the call is then judged again. An error refuses the call and releases its answer.
	Hold func(context.Context) error
	// NoEdit is the reason why an edit of the arguments cannot be reported to the client, "" if
	// it can.
	NoEdit string
	// Reason is the requester's reason for the call in its own words, or "". It is for policy
	// and approvers, and is not part of the call.
	Reason string
	// ReasonBy describes how this client sends a reason, as the next step in the error if one
	// is required; "" for the text of docs/reference/reasons.md.
	ReasonBy string
	// Peer is the client, for executors that forward data to it.
	Peer tool.Peer
}

// PriorAnswer is an approval of a call that its agent announced by its hook. The code that creates
// one must have verified that the call is the announced one, and must create it only once.
type PriorAnswer struct {
	// Proposal is the call as it was announced.
	Proposal string
	// Answer is the answer used in the decision on the announced call.
	Answer approval.Answer
	// CallDigest is the call digest at the time of the announcement, including the bytes of the
	// files that the call names; "" if the call could not be planned.
	CallDigest string
}
