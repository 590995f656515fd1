// Package anthropic calls models through Anthropic's Messages API
// (https://docs.anthropic.com/en/api/messages), always as a stream.
package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"palyra/internal/run/model"
)

const (
	home = "https://api.anthropic.com"
	// apiVersion is the version of the API whose members this package uses.
	apiVersion = "2023-06-01"
	// defaultMaxTokens is used because the API requires a bound.
	defaultMaxTokens = 8192
)

// Provider is a model.Provider for one model at one address.
type Provider struct {
	endpoint model.Endpoint
	address  string
	client   *http.Client
}

var _ model.Provider = (*Provider)(nil)

// New returns a Provider. It does not connect yet.
func New(endpoint model.Endpoint) (*Provider, error) {
	endpoint, err := endpoint.Resolve(home)
	if err != nil {
		return nil, err
	}
	address, err := url.JoinPath(endpoint.BaseURL, "v1", "messages")
	if err != nil {
		return nil, fmt.Errorf("the address of messages: %w", err)
	}
	return &Provider{endpoint: endpoint, address: address, client: model.HTTPClient(endpoint.IdleTimeout)}, nil
}

// Generate requests the next turn.
func (p *Provider) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	names := model.NewNames(r)
	body, err := json.Marshal(p.request(r, names))
	if err != nil {
		return model.Turn{}, fmt.Errorf("writing the request to the model: %w", err)
	}
	return p.endpoint.Generate(ctx, r, observe, func(ctx context.Context, key model.Key) (model.Turn, error) {
		res, err := p.post(ctx, body, key)
		if err != nil {
			return model.Turn{}, err
		}
		defer func() { _ = res.Body.Close() }()
		return read(model.NewEventStream(res.Body), names, observe)
	})
}

func (p *Provider) post(ctx context.Context, body []byte, key model.Key) (*http.Response, error) {
	header := http.Header{"Anthropic-Version": {apiVersion}}
	if !key.IsZero() {
		header.Set("X-Api-Key", key.Reveal())
	}
	return model.Post(ctx, p.client, p.address, body, header)
}
