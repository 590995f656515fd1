// Package run executes runs: a model that proposes tool calls, within budgets, in a session. Every
// call passes through the pipeline (package call); denials are returned to the model with their
// reason and remedy. All events are journaled. The tape of a run, the events that clients follow
// and resume, is derived from the journal; only partial output exists solely in memory.
//
// A run belongs to the Manager and not to the client that started it: it continues without one. A
// run that was active when the gateway stopped is listed as interrupted; it is not resumed.
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

// State is the state of a run.
type State string

// The states. All but Running are final.
const (
	Running     State = "running"
	Completed   State = "completed"
	Failed      State = "failed"
	Cancelled   State = "cancelled"
	Interrupted State = "interrupted"
)

// Start is a request to start a run.
type Start struct {
	// Session is the client's name for its session; "" means "default".
	Session string
	// Message is the task.
	Message string
	// Model and Workspace are names in the configuration; "" means the default model and the first
	// workspace.
	Model     string
	Workspace string
	// Zero fields of Budget mean the gateway's bounds, which are also the maximum.
	Budget Budget
	// Interactive runs wait for the next message after the model ended its turn, until Inbox.Close.
	Interactive bool
	// IdempotencyKey makes a retry return the run that the first request created.
	IdempotencyKey string
}

// Budget bounds a run.
type Budget struct {
	Calls int `json:"calls"`
	// Tokens counts input and output of all turns.
	Tokens int64 `json:"tokens"`
	// WallClock is the time from start to end, including waits for approval.
	WallClock time.Duration `json:"wall_clock"`
}

// Usage is the usage of a run.
type Usage struct {
	Calls        int   `json:"calls"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Turns        int   `json:"turns"`
}

// Record is a run as listed.
type Record struct {
	// ID is a ULID.
	ID         string
	State      State
	Principal  access.Principal
	OnBehalfOf access.Principal
	// Device is the id of the device that started the run.
	Device string
	// Session is the full id, device and name.
	Session     string
	Model       string
	Workspace   string
	Message     string
	Interactive bool
	StartedAt   time.Time
	// EndedAt is zero while the run is active.
	EndedAt time.Time
	Budget  Budget
	Usage   Usage
	// Reason, Detail and Remedy are set if a run did not complete.
	Reason reason.Code
	Detail string
	Remedy string
	// CancelledBy is zero unless a principal cancelled the run.
	CancelledBy access.Principal
}

// Filter selects runs; empty fields match all.
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

// Event is one event of a tape; exactly one field after the first four is set.
type Event struct {
	// Sequence increases along the tape, with gaps, and never changes. It is the journal's
	// sequence number times 2^20, plus an offset. The offset distinguishes events that share one
	// journal event, and events that follow it without being journaled.
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

// Retry discards the deltas of the turn so far.
type Retry struct {
	Attempt int
	Message string
	After   time.Duration
}

// Turn is one complete answer of the model.
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

// TurnCall is a call that the model requests.
type TurnCall struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	// Input is the model's input, with secrets redacted.
	Input string `json:"input"`
}

// Resolved reports how the wait for an approval ended.
type Resolved struct {
	ApprovalID string
	State      approval.State
	GrantID    string
}

// Post is a message to a run from a client without an inbox.
type Post struct {
	// Text may be empty when Last is set.
	Text string
	// Last is true for the client's last message.
	Last bool
	// Key is the client's idempotency key of the message; it may be empty.
	Key string
}

// Inbox lets a client send messages to a run that it holds open.
type Inbox interface {
	// Say queues a message of the user; the model receives it at its next turn.
	Say(ctx context.Context, text string) error
	// Close ends the messages: an interactive run completes when the model ends its turn and no
	// other client may send more.
	Close()
	// Leave marks the client as disconnected without Close, such as by a broken connection: an
	// interactive run waits until a client attaches again.
	Leave()
}
