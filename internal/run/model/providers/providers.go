// Package providers builds the models of the configuration.
package providers

import (
	"context"
	"log/slog"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
	"palyra/internal/run/model/anthropic"
	"palyra/internal/run/model/openai"
	"palyra/internal/run/model/scripted"
)

// Set contains the models that runs may use.
type Set struct {
	// ByName has every configured model. Generate of an unusable model returns the reason.
	ByName map[string]model.Provider
	// Status is in the order of the configuration.
	Status []model.Status
}

// Secrets lends the secret in api_key_secret to the gateway itself. lend.Desk implements it.
type Secrets interface {
	Own(ctx context.Context, ref, run, purpose string) (value []byte, end func(), err error)
}

// OpenAll builds the providers. If a provider cannot be built, the gateway still starts,
// because its other functions need no model.
func OpenAll(ctx context.Context, list []config.Model, secrets Secrets, log *slog.Logger) Set {
	out := Set{ByName: make(map[string]model.Provider, len(list))}
	for _, m := range list {
		status := model.Status{Name: m.Name, Provider: m.Provider, Model: m.Model}
		provider, err := Open(m, secrets)
		if err != nil {
			why := reason.Known(err, reason.ConfigInvalid)
			provider, status.Problem = unusable{m.Name, why}, why
			log.WarnContext(ctx, "a model is unavailable", slog.String("model", m.Name),
				slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
		}
		out.ByName[m.Name], out.Status = provider, append(out.Status, status)
	}
	return out
}

// Open builds the provider of one model. It does not connect, and no secret is lent yet.
func Open(m config.Model, secrets Secrets) (model.Provider, error) {
	if m.Provider == config.ProviderScripted {
		return scripted.New(scripted.Config{File: m.Script})
	}
	text, err := m.APIKey()
	if err != nil {
		return nil, err
	}
	key, err := model.NewKey(text)
	if err != nil {
		return nil, err
	}
	endpoint := model.Endpoint{Model: m.Model, BaseURL: m.BaseURL, Key: key, MaxOutputTokens: m.MaxOutputTokens, IdleTimeout: m.IdleTimeout}
	if m.APIKeySecret != "" {
		endpoint.Lend = lender(m, secrets)
	}
	if m.Provider == config.ProviderAnthropic {
		return anthropic.New(endpoint)
	}
	return openai.New(endpoint)
}

// lender returns a function that lends a model's key for each turn, so that a new value applies
// at once and no value is stored.
func lender(m config.Model, secrets Secrets) func(ctx context.Context, run, host string) (model.Key, func(), error) {
	return func(ctx context.Context, run, host string) (model.Key, func(), error) {
		value, end, err := secrets.Own(ctx, m.APIKeySecret, run, "model "+m.Name+" at "+host)
		if reason.Of(err) == reason.NotFound {
			return model.Key{}, nil, reason.Errorf(reason.ModelRejected, "model %s has no key: %w", m.Name, err).
				WithRemedy("Store the key in the vault: `palyra vault put %s`.", m.APIKeySecret)
		}
		if err != nil {
			return model.Key{}, nil, err
		}
		defer clear(value)
		key, err := model.NewKey(string(value))
		if err == nil && key.IsZero() {
			err = reason.Errorf(reason.ModelRejected, "the key of model %s is empty", m.Name).
				WithRemedy("Store the key in the vault: `palyra vault put %s`.", m.APIKeySecret)
		}
		if err != nil {
			end()
			return model.Key{}, nil, err
		}
		return key, end, nil
	}
}

// unusable is the provider of a model that cannot be used.
type unusable struct {
	name string
	why  *reason.Error
}

// Generate returns why the model cannot be used.
func (u unusable) Generate(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
	return model.Turn{}, reason.Errorf(reason.ModelRejected, "model %s cannot be used: %s", u.name, u.why.Message).
		WithRemedy("%s Then restart palyrad.", u.why.NextStep())
}
