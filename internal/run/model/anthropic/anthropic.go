// Package anthropic calls models through Anthropic's Messages API
// (https://docs.anthropic.com/en/api/messages), always as a stream.
package anthropic

import (
	"context"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"palyra/internal/run/model"
)

const (
	home = "https://api.anthropic.com"
	// defaultMaxTokens is used because the API requires a bound.
	defaultMaxTokens = 8192
)

// Provider is a model.Provider for one model at one address.
type Provider struct {
	endpoint model.Endpoint
	messages sdk.MessageService
}

var _ model.Provider = (*Provider)(nil)

// New returns a Provider. It does not connect yet.
func New(endpoint model.Endpoint) (*Provider, error) {
	endpoint, err := endpoint.Resolve(home)
	if err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithBaseURL(endpoint.BaseURL),
		option.WithHTTPClient(model.HTTPClient(endpoint.IdleTimeout)),
		// Endpoint.Generate retries.
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
	}
	// Only the service is used, because the SDK's client reads environment variables and files in
	// the home directory.
	return &Provider{endpoint: endpoint, messages: sdk.NewMessageService(options...)}, nil
}

// Generate requests the next turn.
func (p *Provider) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	names := model.NewNames(r)
	params := p.params(r, names)
	return p.endpoint.Generate(ctx, r, observe, func(ctx context.Context, key model.Key) (model.Turn, error) {
		var options []option.RequestOption
		if !key.IsZero() {
			options = append(options, option.WithAPIKey(key.Reveal()))
		}
		stream := p.messages.NewStreaming(ctx, params, options...)
		defer func() { _ = stream.Close() }()
		return read(stream, names, observe)
	}, eventIn)
}
