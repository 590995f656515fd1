// Package model turns a conversation into the model's next turn. A Provider
// speaks one wire format (anthropic, openai, or scripted, which plays a file);
// it runs no tools and knows no policy. docs/models.md describes how models
// are configured.
package model

import (
	"context"
	"encoding/json"
	"time"

	"palyra/internal/core/reason"
)

// Provider asks a model for its next turn.
type Provider interface {
	// Generate returns the whole turn once the model has ended it, and tells
	// observe what comes meanwhile. It retries what is worth a retry, within
	// bounds. A turn that was cut off is never returned: its tool calls may be
	// incomplete. When ctx ends, the request to the provider ends with it.
	//
	// Errors are reason.Errors: MODEL_UNAVAILABLE, MODEL_REJECTED,
	// MODEL_INVALID, CANCELLED, and those of the vault that keeps the key.
	Generate(ctx context.Context, r Request, observe func(Event)) (Turn, error)
}

// Request is a conversation with what the model may call.
type Request struct {
	// Run is the id of the run that asks; the model does not see it.
	Run      string
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the output of this turn; 0 means the provider's
	// configured bound.
	MaxTokens int64
}

// Role is who speaks.
type Role string

// The roles. Tool results are said by the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one entry of the conversation. Calls are the assistant's, Results
// the user's; either may come with Text.
type Message struct {
	Role    Role
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a tool call that the model wants.
type Call struct {
	// ID is unique within the conversation.
	ID string
	// Tool is the gateway's name of the tool, or what the model wrote when
	// there is none of that name.
	Tool string
	// Input is what the model wrote, {} where it wrote nothing. It need not be
	// valid JSON: checking it is the pipeline's business, and the model reads
	// what was wrong with it.
	Input []byte
}

// Result answers a Call.
type Result struct {
	CallID string
	// Text is JSON or plain text.
	Text string
	// Failed marks denials, refusals and failures of the tool.
	Failed bool
}

// Tool is what the model is told of a tool.
type Tool struct {
	Name        string
	Description string
	// InputSchema is a JSON Schema of type object.
	InputSchema json.RawMessage
}

// Stop is why the model ended its turn.
type Stop string

// The stops.
const (
	EndTurn   Stop = "end_turn"
	ToolUse   Stop = "tool_use"
	MaxTokens Stop = "max_tokens"
	Refusal   Stop = "refusal"
)

// Usage counts tokens.
type Usage struct {
	// InputTokens includes those that the provider had cached.
	InputTokens  int64
	OutputTokens int64
	// Estimated is set when the provider sent no count: it was then made from
	// the size of the texts, so that a budget holds all the same.
	Estimated bool
}

// Turn is one whole answer.
type Turn struct {
	Text string
	// Calls are complete: one that MaxTokens cut off is left out, and a Refusal
	// has none. Without MaxTokens, there are calls exactly when Stop is ToolUse.
	Calls []Call
	Stop  Stop
	Usage Usage
	// Model is the model as the provider names it.
	Model string
}

// Event is something that a provider reports while a turn comes in; exactly one
// field is set.
type Event struct {
	Delta *Delta
	Retry *Retry
}

// Delta is a part of the turn's text.
type Delta struct{ Text string }

// Retry says that the request failed and is made again. It takes back the
// deltas of the turn so far.
type Retry struct {
	// Attempt counts from 1.
	Attempt int
	Cause   error
	After   time.Duration
}

// Status says whether runs may ask a configured model, and if not, why.
type Status struct {
	Name, Provider, Model string
	Problem               *reason.Error
}
