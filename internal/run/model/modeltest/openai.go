package modeltest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"palyra/internal/run/model"
)

// openaiAPI is the chat completions API.
var openaiAPI = api{
	name: "openai", base: "/v1", path: "/v1/chat/completions",
	authorized: func(h http.Header) bool { return h.Get("Authorization") == "Bearer "+Key },
	check:      checkCompletion,
	failure: func(kind, message string) string {
		return object(map[string]any{"error": map[string]any{"type": kind, "code": nil, "param": nil, "message": message}})
	},
	stream: openaiStream,
}

// checkCompletion refuses requests that the API refuses.
func checkCompletion(body map[string]any) error {
	c := &checker{}
	c.want(text(body["model"]) != "", "you must provide a model parameter")
	c.want(body["stream"] == true, "stream: only streams are played here")
	c.want(body["max_tokens"] == nil || body["max_completion_tokens"] == nil, "max_tokens and max_completion_tokens exclude each other")
	c.names("tools", list(body["tools"]), func(tool any) (string, any) {
		c.want(text(field(tool, "type")) == "function", "tools: type must be function")
		return text(field(field(tool, "function"), "name")), field(field(tool, "function"), "parameters")
	})
	messages := list(body["messages"])
	c.want(len(messages) > 0, "messages: at least one is required")
	var open []string
	for i, m := range messages {
		role := text(field(m, "role"))
		if role != "tool" {
			c.want(len(open) == 0, "messages.%d: an assistant message with 'tool_calls' must be followed by tool messages; no answer to %v", i, open)
		}
		switch role {
		case "system", "user":
			c.want(text(field(m, "content")) != "", "messages.%d: content is required", i)
		case "assistant":
			open = c.openaiCalls(i, m)
		case "tool":
			id := text(field(m, "tool_call_id"))
			c.want(slices.Contains(open, id), "messages.%d: 'tool_call_id' %q not found in 'tool_calls' of the previous message", i, id)
			_, isText := field(m, "content").(string)
			c.want(isText, "messages.%d: content is required", i)
			open = without(open, id)
		default:
			c.want(false, "messages.%d: role %q is not allowed", i, role)
		}
	}
	c.want(len(open) == 0, "messages: no answer to %v", open)
	return c.err
}

func (c *checker) openaiCalls(i int, m any) []string {
	calls := list(field(m, "tool_calls"))
	c.want(len(calls) > 0 || text(field(m, "content")) != "", "messages.%d: content or tool_calls is required", i)
	var open []string
	for j, call := range calls {
		id := text(field(call, "id"))
		c.want(id != "" && text(field(call, "type")) == "function", "messages.%d.tool_calls.%d: id and type are required", i, j)
		c.want(nameForm.MatchString(text(field(field(call, "function"), "name"))), "messages.%d.tool_calls.%d: name", i, j)
		_, isText := field(field(call, "function"), "arguments").(string)
		c.want(isText, "messages.%d.tool_calls.%d: arguments must be a string", i, j)
		c.fresh(id)
		open = append(open, id)
	}
	return open
}

// openaiStream returns a turn as the API streams it.
func openaiStream(t model.Turn) string {
	var out strings.Builder
	chunk := func(choices []any, usage any) {
		fmt.Fprintf(&out, "data: %s\n\n", object(map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": orTest(t.Model), "choices": choices, "usage": usage,
		}))
	}
	delta := func(fields map[string]any, finish any) {
		chunk([]any{map[string]any{"index": 0, "delta": fields, "finish_reason": finish}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, part := range pieces(t.Text, 9) {
		delta(map[string]any{"content": part}, nil)
	}
	for i, call := range t.Calls {
		first := map[string]any{"index": i, "id": call.ID, "type": "function", "function": map[string]any{"name": wire(call.Tool), "arguments": ""}}
		delta(map[string]any{"tool_calls": []any{first}}, nil)
		for _, part := range pieces(string(call.Input), 7) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": part}}}}, nil)
		}
	}
	delta(map[string]any{}, finishReasons[stopOf(t)])
	usage := small(t.Usage)
	chunk([]any{}, map[string]any{
		"prompt_tokens": usage.InputTokens, "completion_tokens": usage.OutputTokens, "total_tokens": usage.InputTokens + usage.OutputTokens,
	})
	out.WriteString("data: [DONE]\n\n")
	return out.String()
}

var finishReasons = map[string]string{
	string(model.EndTurn): "stop", string(model.ToolUse): "tool_calls", string(model.MaxTokens): "length", string(model.Refusal): "content_filter",
}
