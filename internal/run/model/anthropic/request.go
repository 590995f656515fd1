package anthropic

import (
	"cmp"
	"strings"

	"palyra/internal/run/model"
)

// request returns the body of the request.
func (p *Provider) request(r model.Request, names model.Names) request {
	body := request{
		Model:     p.endpoint.Model,
		MaxTokens: cmp.Or(p.endpoint.OutputTokens(r), defaultMaxTokens),
		Messages:  messages(r.Messages, names),
		Stream:    true,
	}
	// A run sends the same prefix with every turn; the marks let the provider cache it.
	mark := &cacheMark{Type: "ephemeral"}
	if !blank(r.System) {
		body.System = []content{{Type: "text", Text: r.System, Cache: mark}}
	}
	for _, tool := range r.Tools {
		body.Tools = append(body.Tools, offer{Name: names.Wire(tool.Name), Description: tool.Description, InputSchema: tool.InputSchema})
	}
	if last := len(body.Messages) - 1; last >= 0 {
		blocks := body.Messages[last].Content
		blocks[len(blocks)-1].Cache = mark
	}
	return body
}

// messages converts the conversation to the format of the API: roles alternate, no text is blank,
// and results precede text.
func messages(conversation []model.Message, names model.Names) []message {
	var out []message
	for _, m := range conversation {
		blocks := contents(m, names)
		if len(blocks) == 0 {
			continue
		}
		role := string(m.Role)
		if last := len(out) - 1; last >= 0 && out[last].Role == role {
			out[last].Content = append(out[last].Content, blocks...)
			continue
		}
		out = append(out, message{Role: role, Content: blocks})
	}
	return out
}

func contents(m model.Message, names model.Names) []content {
	var out []content
	for _, result := range m.Results {
		block := content{Type: "tool_result", ToolUseID: result.CallID, IsError: result.Failed}
		if !blank(result.Text) {
			block.Content = []content{{Type: "text", Text: result.Text}}
		}
		out = append(out, block)
	}
	if !blank(m.Text) {
		out = append(out, content{Type: "text", Text: m.Text})
	}
	for _, call := range m.Calls {
		out = append(out, content{Type: "tool_use", ID: call.ID, Name: names.Wire(call.Tool), Input: model.InputObject(call.Input)})
	}
	return out
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
