// Package openai asks models through OpenAI's chat completions
// (https://platform.openai.com/docs/api-reference/chat) and what is compatible
// with them: llama.cpp, vLLM, Ollama and others. It always streams, and
// tolerates what those servers are known to do differently.
package openai

import (
	"context"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"palyra/internal/model"
)

const home = "https://api.openai.com/v1"

// Provider is a model.Provider for one model at one address.
type Provider struct {
	endpoint    model.Endpoint
	completions sdk.ChatCompletionService
}

var _ model.Provider = (*Provider)(nil)

// New returns a Provider. It connects to nothing yet.
func New(endpoint model.Endpoint) (*Provider, error) {
	endpoint, err := endpoint.Resolve(home)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithBaseURL(endpoint.BaseURL),
		option.WithHTTPClient(model.HTTPClient(endpoint.IdleTimeout)),
		// The one retry loop is ours.
		option.WithMaxRetries(0),
	}
	// The service alone, for the SDK's client reads environment variables.
	return &Provider{endpoint: endpoint, completions: sdk.NewChatCompletionService(options...)}, nil
}

// Generate asks for the next turn.
func (p *Provider) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	names := model.NewNames(r)
	params := p.params(r, names)
	return p.endpoint.Generate(ctx, r, observe, func(ctx context.Context, key model.Key) (model.Turn, error) {
		var options []option.RequestOption
		if !key.IsZero() {
			options = append(options, option.WithAPIKey(key.Reveal()))
		}
		stream := p.completions.NewStreaming(ctx, params, options...)
		defer func() { _ = stream.Close() }()
		return read(stream, names, observe)
	}, eventIn)
}
