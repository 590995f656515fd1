package openai

import (
	"net/url"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"palyra/internal/model"
)

// params is the body of the request.
func (p *Provider) params(r model.Request, names model.Names) sdk.ChatCompletionNewParams {
	params := sdk.ChatCompletionNewParams{
		Model:         p.endpoint.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	if limit := p.endpoint.OutputTokens(r); limit > 0 {
		// OpenAI's newer models refuse the old name, and local servers do not know
		// the new one.
		if newer(p.endpoint.BaseURL) {
			params.MaxCompletionTokens = sdk.Int(limit)
		} else {
			params.MaxTokens = sdk.Int(limit)
		}
	}
	if r.System != "" {
		params.Messages = append(params.Messages, sdk.SystemMessage(r.System))
	}
	for _, m := range r.Messages {
		params.Messages = append(params.Messages, messages(m, names)...)
	}
	for _, tool := range r.Tools {
		params.Tools = append(params.Tools, sdk.ChatCompletionFunctionTool(function(tool, names)))
	}
	return params
}

// newer reports whether the server is OpenAI's own, or Azure's.
func newer(base string) bool {
	u, err := url.Parse(base)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".openai.com") || strings.HasSuffix(u.Hostname(), ".azure.com"))
}

func function(tool model.Tool, names model.Names) shared.FunctionDefinitionParam {
	fields := map[string]any{"name": names.Wire(tool.Name)}
	if tool.Description != "" {
		fields["description"] = tool.Description
	}
	if len(tool.InputSchema) > 0 {
		fields["parameters"] = tool.InputSchema
	}
	// The SDK's own type would decode the schema and write it anew.
	return param.Override[shared.FunctionDefinitionParam](fields)
}

// messages are one entry of the conversation: each result is a message of its
// own.
func messages(m model.Message, names model.Names) []sdk.ChatCompletionMessageParamUnion {
	if m.Role == model.Assistant {
		return assistant(m, names)
	}
	var out []sdk.ChatCompletionMessageParamUnion
	for _, result := range m.Results {
		out = append(out, sdk.ToolMessage(result.Text, result.CallID))
	}
	if m.Text != "" {
		out = append(out, sdk.UserMessage(m.Text))
	}
	return out
}

func assistant(m model.Message, names model.Names) []sdk.ChatCompletionMessageParamUnion {
	if m.Text == "" && len(m.Calls) == 0 {
		return nil
	}
	var out sdk.ChatCompletionAssistantMessageParam
	if m.Text != "" {
		out.Content.OfString = sdk.String(m.Text)
	}
	for _, call := range m.Calls {
		out.ToolCalls = append(out.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: names.Wire(call.Tool), Arguments: string(model.InputObject(call.Input)),
				},
			},
		})
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &out}}
}
