package anthropic

import (
	"cmp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"palyra/internal/run/model"
)

// params returns the body of the request.
func (p *Provider) params(r model.Request, names model.Names) sdk.MessageNewParams {
	params := sdk.MessageNewParams{
		Model:     p.endpoint.Model,
		MaxTokens: cmp.Or(p.endpoint.OutputTokens(r), defaultMaxTokens),
		Messages:  messages(r.Messages, names),
	}
	if !blank(r.System) {
		// A run sends the same prefix with every turn; the marks let the provider cache it.
		params.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, tool := range r.Tools {
		params.Tools = append(params.Tools, sdk.ToolUnionParam{OfTool: toolParam(tool, names)})
	}
	if last := len(params.Messages) - 1; last >= 0 {
		content := params.Messages[last].Content
		if mark := content[len(content)-1].GetCacheControl(); mark != nil {
			*mark = sdk.NewCacheControlEphemeralParam()
		}
	}
	return params
}

func toolParam(tool model.Tool, names model.Names) *sdk.ToolParam {
	out := &sdk.ToolParam{Name: names.Wire(tool.Name)}
	if tool.Description != "" {
		out.Description = sdk.String(tool.Description)
	}
	if len(tool.InputSchema) > 0 {
		out.InputSchema = param.Override[sdk.ToolInputSchemaParam](tool.InputSchema)
	}
	return out
}

// messages converts the conversation to the format of the API: roles alternate, no text is blank,
// and results precede text.
func messages(conversation []model.Message, names model.Names) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range conversation {
		content := blocks(m, names)
		if len(content) == 0 {
			continue
		}
		role := sdk.MessageParamRole(m.Role)
		if last := len(out) - 1; last >= 0 && out[last].Role == role {
			out[last].Content = append(out[last].Content, content...)
			continue
		}
		out = append(out, sdk.MessageParam{Role: role, Content: content})
	}
	return out
}

func blocks(m model.Message, names model.Names) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	for _, result := range m.Results {
		out = append(out, resultBlock(result))
	}
	if !blank(m.Text) {
		out = append(out, sdk.NewTextBlock(m.Text))
	}
	for _, call := range m.Calls {
		out = append(out, sdk.NewToolUseBlock(call.ID, model.InputObject(call.Input), names.Wire(call.Tool)))
	}
	return out
}

func resultBlock(result model.Result) sdk.ContentBlockParamUnion {
	block := &sdk.ToolResultBlockParam{ToolUseID: result.CallID}
	if !blank(result.Text) {
		block.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: result.Text}}}
	}
	if result.Failed {
		block.IsError = sdk.Bool(true)
	}
	return sdk.ContentBlockParamUnion{OfToolResult: block}
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
