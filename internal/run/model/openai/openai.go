// Package openai calls models through OpenAI's chat completions
// (https://platform.openai.com/docs/api-reference/chat) and compatible servers: llama.cpp, vLLM,
// Ollama and others. It always streams, and tolerates the known deviations of those servers.
package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"palyra/internal/run/model"
)

const home = "https://api.openai.com/v1"

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
	address, err := url.JoinPath(endpoint.BaseURL, "chat", "completions")
	if err != nil {
		return nil, fmt.Errorf("the address of chat completions: %w", err)
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
	header := make(http.Header)
	if !key.IsZero() {
		header.Set("Authorization", "Bearer "+key.Reveal())
	}
	return model.Post(ctx, p.client, p.address, body, header)
}
