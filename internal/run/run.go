// Package run drives runs: a model that proposes tool calls, within budgets,
// in a session. Every call goes through the pipeline (package toolcall); denials go
// back to the model with their reason and remedy. What happens is journaled. The
// tape of a run, its events as clients follow and resume them, is made from the
// journal; only output that comes in pieces is in memory alone.
//
// A run belongs to the Manager and not to the client that started it: it goes
// on without one. A run that was under way when the gateway stopped is listed
// as interrupted; it is not resumed.
package run

import (
	"context"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// State is where a run stands.
type State string

// The states. All but Running are final.
const (
	Running     State = "running"
	Completed   State = "completed"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Interrupted State = "interrupted"
)

// Start describes a run to be started.
type Start struct {
	// Session is the client's name for its session; "" means "default".
	Session string
	// Message is the task.
	Message string
	// Model and Workspace are names of the configuration; "" means the default
	// model and the first workspace.
	Model     string
	Workspace string
	// Budget's zero fields mean the gateway's bounds, which none may exceed.
	Budget Budget
	// Interactive runs wait for the next message after the model ended its
	// turn, until Inbox.Close.
	Interactive bool
	// IdempotencyKey makes a retry get the run that the first made.
	IdempotencyKey string
}

// Budget bounds a run.
type Budget struct {
	Calls int `json:"calls"`
	// Tokens counts input and output of all turns.
	Tokens int64 `json:"tokens"`
	// WallClock is from start to end, waiting for humans included.
	WallClock time.Duration `json:"wall_clock"`
}

// Usage is what a run used.
type Usage struct {
	Calls        int   `json:"calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Turns        int   `json:"turns"`
}

// Record is a run as it is listed.
type Record struct {
	// ID is a ULID.
	ID         string
	State      State
	Principal  access.Principal
	OnBehalfOf access.Principal
	// Device is the id of the device that started it.
	Device string
	// Session is the full id, device and name.
	Session     string
	Model       string
	Workspace   string
	Message     string
	Interactive bool
	StartedAt   time.Time
	// EndedAt is zero while it runs.
	EndedAt time.Time
	Budget  Budget
	Usage   Usage
	// Reason, Detail and Remedy say why a run ended that did not complete.
	Reason reason.Code
	Detail string
	Remedy string
	// CancelledBy is zero unless somebody cancelled it.
	CancelledBy access.Principal
}

// Filter selects runs; empty fields do not.
type Filter struct {
	States    []State
	Principal access.Principal
	// Of selects the runs of a principal and those on its behalf.
	Of      access.Principal
	Session string
	Since   time.Time
	Until   time.Time
	// PageSize 0 means 50; at most 500.
	PageSize  int
	PageToken string
}

// Event is one event of a tape; exactly one field beside the first four is
// set.
type Event struct {
	// Sequence increases along the tape, with gaps, and never changes: it is the
	// journal's sequence number times 2^20, plus an offset for events that share
	// one event of the journal or follow it without being journaled.
	Sequence int64
	At       time.Time
	// ProposalID and CallID are set for events of a call.
	ProposalID string
	CallID     string

	Started     *Record
	Message     *Message
	Delta       *Delta
	Retry       *Retry
	Turn        *Turn
	Proposed    *call.Proposed
	Asked       *approval.Record
	Resolved    *Resolved
	Decision    *decision.Record
	Output      *call.Chunk
	Result      *tool.Report
	Attestation *call.Attestation
	Finished    *Record
}

// Message is text from the user.
type Message struct {
	Text string `json:"text"`
}

// Delta is a provisional part of the model's answer.
type Delta struct{ Text string }

// Retry takes back the deltas of the turn so far.
type Retry struct {
	Attempt int
	Message string
	After   time.Duration
}

// Turn is one whole answer of the model.
type Turn struct {
	// N counts from 1 within the run.
	N            int        `json:"turn"`
	Text         string     `json:"text"`
	Calls        []TurnCall `json:"calls"`
	Stop         string     `json:"stop"`
	InputTokens  int64      `json:"input_tokens"`
	OutputTokens int64      `json:"output_tokens"`
	Model        string     `json:"model"`
}

// TurnCall is a call that the model wants.
type TurnCall struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// Input is as the model wrote it, with secrets redacted.
	Input string `json:"input"`
}

// Resolved says how the wait for an approval ended.
type Resolved struct {
	ApprovalID string
	State      approval.State
	GrantID    string
}

// Post is what a client says to a run that it does not hold open.
type Post struct {
	// Text may be empty when Last is set.
	Text string
	// Last says that the client has nothing more to say.
	Last bool
	// Key is the client's own name for the message, so that a retry says nothing
	// again; it may be empty.
	Key string
}

// Inbox is how a client steers a run that it holds open.
type Inbox interface {
	// Say queues what the user says next; the model reads it at its next turn.
	Say(ctx context.Context, text string) error
	// Close says that no more messages come: an interactive run completes when
	// the model ends its turn and nobody else has more to say.
	Close()
	// Leave says that the client is gone without a Close, such as by a broken
	// connection: an interactive run waits until a client attaches again.
	Leave()
}
