// Package providers builds the models of the configuration.
package providers

import (
	"context"
	"log/slog"

	"palyra/internal/config"
	"palyra/internal/model"
	"palyra/internal/model/anthropic"
	"palyra/internal/model/openai"
	"palyra/internal/model/scripted"
	"palyra/internal/reason"
)

// Set is what runs may ask.
type Set struct {
	// ByName has every configured model. Generate of one that cannot be used
	// returns the reason.
	ByName map[string]model.Provider
	// Status is in the order of the configuration.
	Status []model.Status
}

// OpenAll builds the providers. When one cannot be built, the gateway starts all
// the same: it does more than run models.
func OpenAll(ctx context.Context, list []config.Model, log *slog.Logger) Set {
	out := Set{ByName: make(map[string]model.Provider, len(list))}
	for _, m := range list {
		status := model.Status{Name: m.Name, Provider: m.Provider, Model: m.Model}
		provider, err := Open(m)
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

// Open builds the provider of one model; nobody is called.
func Open(m config.Model) (model.Provider, error) {
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
	if m.Provider == config.ProviderAnthropic {
		return anthropic.New(endpoint)
	}
	return openai.New(endpoint)
}

// unusable stands where a model is that cannot be used.
type unusable struct {
	name string
	why  *reason.Error
}

// Generate returns why the model cannot be used.
func (u unusable) Generate(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
	return model.Turn{}, reason.Errorf(reason.ModelRejected, "model %s cannot be used: %s", u.name, u.why.Message).
		WithRemedy("%s Then restart palyrad.", u.why.NextStep())
}
