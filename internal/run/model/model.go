// Package model requests a conversation's next turn from a model. A Provider implements one wire
// format (anthropic, openai, or scripted, which plays a file); it runs no tools and applies no
// policy. docs/models.md describes the configuration of models.
//
// The SDKs of providers are not used. Their clients read keys and addresses from the environment,
// retry by themselves, use proxies, and read error bodies without a bound. Their accumulators have
// no bound and cannot distinguish a truncated turn. This package has one HTTP client, one retry
// loop and one reader of event streams; the providers' packages write requests and assemble turns.
package model

import (
	"context"
	"encoding/json"
	"time"

	"palyra/internal/core/reason"
)

// Provider requests the next turn from a model.
type Provider interface {
	// Generate returns the turn once the model has completed it, and passes its events to observe
	// meanwhile. It retries transient failures, within bounds. A truncated turn is never returned,
	// because its tool calls may be incomplete. When ctx ends, the request to the provider ends
	// with it.
	//
	// Errors are reason.Errors: MODEL_UNAVAILABLE, MODEL_REJECTED, MODEL_INVALID, CANCELLED, and
	// errors of the vault that stores the key.
	Generate(ctx context.Context, r Request, observe func(Event)) (Turn, error)
}

// Request is a conversation with the callable tools.
type Request struct {
	// Run is the id of the requesting run; it is not sent to the model.
	Run      string
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the output of this turn; 0 means the provider's
	// configured bound.
	MaxTokens int64
}

// Role is the sender of a message.
type Role string

// The roles. Tool results have the role of the user.
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

// Call is a tool call that the model requests.
type Call struct {
	// ID is unique within the conversation.
	ID string
	// Tool is the gateway's name of the tool, or the model's text if it names no known tool.
	Tool string
	// Input is the model's input, {} if it gave none. It may be invalid JSON: the pipeline
	// validates it, and the model receives the error.
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

// Tool describes a tool to the model.
type Tool struct {
	Name        string
	Description string
	// InputSchema is a JSON Schema of type object.
	InputSchema json.RawMessage
}

// Stop is the reason why the model ended its turn.
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
	// InputTokens includes the tokens that the provider had cached.
	InputTokens  int64
	OutputTokens int64
	// Estimated is set if the provider sent no count. The count is then estimated from the size of
	// the texts, so that a budget still applies.
	Estimated bool
}

// Turn is one complete answer.
type Turn struct {
	Text string
	// Calls are complete: a call truncated by MaxTokens is omitted, and a Refusal has none.
	// Without MaxTokens, Calls is non-empty exactly when Stop is ToolUse.
	Calls []Call
	Stop  Stop
	Usage Usage
	// Model is the provider's name of the model.
	Model string
}

// Event is reported by a provider during a turn; exactly one field is set.
type Event struct {
	Delta *Delta
	Retry *Retry
}

// Delta is a part of the turn's text.
type Delta struct{ Text string }

// Retry reports that the request failed and is repeated. It discards the deltas of the turn so far.
type Retry struct {
	// Attempt counts from 1.
	Attempt int
	Cause   error
	After   time.Duration
}

// Status reports whether runs may use a configured model, and if not, why.
type Status struct {
	Name, Provider, Model string
	Problem               *reason.Error
}
