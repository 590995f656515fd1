package openai

import "encoding/json"

// The members of the bodies of chat completions that this package uses
// (https://platform.openai.com/docs/api-reference/chat/create and /streaming).

type request struct {
	Model               string        `json:"model"`
	Messages            []message     `json:"messages"`
	Tools               []offer       `json:"tools,omitempty"`
	MaxTokens           int64         `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64         `json:"max_completion_tokens,omitempty"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role string `json:"role"`
	// Content may be empty, and is omitted for an assistant's calls.
	Content    *string    `json:"content,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// function is the function of a call: Arguments is the text of a JSON object.
type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// offer is a tool that the model may call.
type offer struct {
	Type     string      `json:"type"`
	Function description `json:"function"`
}

type description struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// chunk is one event of the stream. It is decoded by the exact names of its members, so that a call
// is unambiguous.
type chunk struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
	} `json:"usage"`
}

type choice struct {
	Index        int64  `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
	ToolCalls []part `json:"tool_calls"`
}

// part is a piece of a tool call.
type part struct {
	Index    int64    `json:"index"`
	ID       string   `json:"id"`
	Function function `json:"function"`
}
