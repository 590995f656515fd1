package openai

import (
	"net/url"
	"strings"

	"palyra/internal/run/model"
)

// request returns the body of the request.
func (p *Provider) request(r model.Request, names model.Names) request {
	body := request{Model: p.endpoint.Model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}}
	limit := p.endpoint.OutputTokens(r)
	// OpenAI's newer models refuse the old name, and local servers do not support the new one.
	if newer(p.endpoint.BaseURL) {
		body.MaxCompletionTokens = limit
	} else {
		body.MaxTokens = limit
	}
	if r.System != "" {
		body.Messages = append(body.Messages, message{Role: "system", Content: &r.System})
	}
	for _, m := range r.Messages {
		body.Messages = append(body.Messages, messages(m, names)...)
	}
	for _, tool := range r.Tools {
		body.Tools = append(body.Tools, offer{Type: "function", Function: description{
			Name: names.Wire(tool.Name), Description: tool.Description, Parameters: tool.InputSchema,
		}})
	}
	return body
}

// newer reports whether the server is OpenAI's own, or Azure's.
func newer(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".openai.com") || strings.HasSuffix(u.Hostname(), ".azure.com"))
}

// messages converts one entry of the conversation: each result is a separate message.
func messages(m model.Message, names model.Names) []message {
	if m.Role == model.Assistant {
		return assistant(m, names)
	}
	var out []message
	for _, result := range m.Results {
		out = append(out, message{Role: "tool", Content: &result.Text, ToolCallID: result.CallID})
	}
	if m.Text != "" {
		out = append(out, message{Role: "user", Content: &m.Text})
	}
	return out
}

func assistant(m model.Message, names model.Names) []message {
	if m.Text == "" && len(m.Calls) == 0 {
		return nil
	}
	out := message{Role: "assistant"}
	if m.Text != "" {
		out.Content = &m.Text
	}
	for _, call := range m.Calls {
		out.ToolCalls = append(out.ToolCalls, toolCall{
			ID: call.ID, Type: "function", Function: function{Name: names.Wire(call.Tool), Arguments: string(model.InputObject(call.Input))},
		})
	}
	return []message{out}
}
