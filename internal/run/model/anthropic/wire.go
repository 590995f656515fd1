package anthropic

import "encoding/json"

// The members of the bodies of the Messages API that this package uses
// (https://docs.anthropic.com/en/api/messages and /messages-streaming).

type request struct {
	MaxTokens int64     `json:"max_tokens"`
	Messages  []message `json:"messages"`
	Model     string    `json:"model"`
	System    []content `json:"system,omitempty"`
	Tools     []offer   `json:"tools,omitempty"`
	Stream    bool      `json:"stream"`
}

type message struct {
	Content []content `json:"content"`
	Role    string    `json:"role"`
}

// content is a block of a message: a text, a call (tool_use) or a result (tool_result).
type content struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// ID, Name and Input belong to a call.
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// ToolUseID, Content and IsError belong to a result.
	ToolUseID string     `json:"tool_use_id,omitempty"`
	Content   []content  `json:"content,omitempty"`
	IsError   bool       `json:"is_error,omitempty"`
	Cache     *cacheMark `json:"cache_control,omitempty"`
}

// cacheMark lets the provider cache the request up to the block that has it.
type cacheMark struct {
	Type string `json:"type"`
}

// offer is a tool that the model may call.
type offer struct {
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
}

// event is one event of the stream. It is decoded by the exact names of its members, so that a turn
// is unambiguous.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block start `json:"content_block"`
	Delta delta `json:"delta"`
	Usage usage `json:"usage"`
}

// start is a content block at its start.
type start struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// delta continues a content block, or ends the message with a reason.
type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

type usage struct {
	InputTokens         int64 `json:"input_tokens"`
	CacheCreationTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadTokens     int64 `json:"cache_read_input_tokens"`
	OutputTokens        int64 `json:"output_tokens"`
}
