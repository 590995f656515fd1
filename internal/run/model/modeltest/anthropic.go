package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"palyra/internal/run/model"
)

// anthropicAPI is the Messages API, version 2023-06-01.
var anthropicAPI = api{
	name: "anthropic", path: "/v1/messages",
	authorized: func(h http.Header) bool {
		return h.Get("X-Api-Key") == Key && h.Get("Anthropic-Version") == "2023-06-01"
	},
	check: checkMessages,
	failure: func(kind, message string) string {
		return object(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": message}})
	},
	stream: anthropicStream,
}

// checkMessages refuses requests that the Messages API refuses, and roles that do not alternate,
// which it would merge.
func checkMessages(body map[string]any) error {
	c := &checker{}
	c.want(body["model"] != nil && text(body["model"]) != "", "model: field required")
	c.want(number(body["max_tokens"]) > 0, "max_tokens: must be greater than 0")
	c.want(body["stream"] == true, "stream: only streams are played here")
	c.anthropicTools(list(body["tools"]))
	for i, block := range list(body["system"]) {
		c.want(strings.TrimSpace(text(field(block, "text"))) != "", "system.%d: text content blocks must be non-empty", i)
	}
	messages := list(body["messages"])
	c.want(len(messages) > 0, "messages: at least one message is required")
	role, open := "assistant", []string(nil)
	for i, m := range messages {
		c.want(text(field(m, "role")) != role, "messages.%d: roles must alternate, beginning with user", i)
		role = text(field(m, "role"))
		c.want(role == "user" || role == "assistant", "messages.%d: role %q is not allowed", i, role)
		open = c.anthropicContent(i, role, list(field(m, "content")), open)
	}
	c.want(role == "user", "messages: the last one must be the user's")
	return c.err
}

func (c *checker) anthropicTools(tools []any) {
	c.names("tools", tools, func(tool any) (string, any) {
		return text(field(tool, "name")), field(tool, "input_schema")
	})
}

// anthropicContent checks the blocks of a message; open are the unanswered calls of the message
// before. It returns the message's own calls.
func (c *checker) anthropicContent(i int, role string, blocks []any, open []string) []string {
	c.want(len(blocks) > 0, "messages.%d: content is required", i)
	answered, calls, spoke := 0, []string(nil), false
	for j, b := range blocks {
		switch kind := text(field(b, "type")); kind {
		case "text":
			spoke = true
			c.want(strings.TrimSpace(text(field(b, "text"))) != "", "messages.%d.content.%d: text content blocks must contain non-whitespace text", i, j)
		case "tool_use":
			id := text(field(b, "id"))
			c.want(role == "assistant" && idForm.MatchString(id), "messages.%d.content.%d: tool_use with id %q", i, j, id)
			c.want(nameForm.MatchString(text(field(b, "name"))), "messages.%d.content.%d: tool_use name %q", i, j, text(field(b, "name")))
			_, isObject := field(b, "input").(map[string]any)
			c.want(isObject, "messages.%d.content.%d: tool_use input must be an object", i, j)
			c.fresh(id)
			calls = append(calls, id)
		case "tool_result":
			id := text(field(b, "tool_use_id"))
			c.want(!spoke, "messages.%d.content.%d: tool results must come first", i, j)
			c.want(slices.Contains(open, id), "messages.%d.content.%d: unexpected tool_use_id %q: each tool_result must have a tool_use in the previous message", i, j, id)
			answered++
		default:
			c.want(false, "messages.%d.content.%d: unknown type %q", i, j, kind)
		}
	}
	c.want(answered == len(open), "messages.%d: %d tool_use ids were found without tool_result", i, len(open)-answered)
	return calls
}

// anthropicStream returns a turn as the Messages API streams it.
func anthropicStream(t model.Turn) string {
	var out strings.Builder
	event := func(kind string, fields map[string]any) {
		fields["type"] = kind
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", kind, object(fields))
	}
	usage := small(t.Usage)
	event("message_start", map[string]any{"message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": orTest(t.Model), "content": []any{}, "stop_reason": nil,
		"usage": map[string]any{"input_tokens": usage.InputTokens, "output_tokens": 1},
	}})
	index := 0
	block := func(start map[string]any, kind, name string, parts []string) {
		event("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, part := range parts {
			event("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": kind, name: part}})
		}
		event("content_block_stop", map[string]any{"index": index})
		index++
	}
	if t.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, "text_delta", "text", pieces(t.Text, 9))
	}
	for _, call := range t.Calls {
		start := map[string]any{"type": "tool_use", "id": call.ID, "name": wire(call.Tool), "input": map[string]any{}}
		block(start, "input_json_delta", "partial_json", append([]string{""}, pieces(string(call.Input), 7)...))
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stopOf(t), "stop_sequence": nil}, "usage": map[string]any{"output_tokens": usage.OutputTokens},
	})
	event("message_stop", map[string]any{})
	return out.String()
}

// stopOf returns the stop of a turn, which may be implied by its calls.
func stopOf(t model.Turn) string {
	switch {
	case t.Stop != "":
		return string(t.Stop)
	case len(t.Calls) > 0:
		return string(model.ToolUse)
	}
	return string(model.EndTurn)
}

func small(u model.Usage) model.Usage {
	if u == (model.Usage{}) {
		return model.Usage{InputTokens: 10, OutputTokens: 5}
	}
	return u
}

func orTest(name string) string {
	if name == "" {
		return "test-model"
	}
	return name
}

func object(fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		// Only values with a JSON form are passed.
		panic("modeltest: " + err.Error())
	}
	return string(text)
}
