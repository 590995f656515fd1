package daemon

import (
	"context"
	"errors"
	"log/slog"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/config"
	"palyra/internal/model"
	"palyra/internal/model/anthropic"
	"palyra/internal/model/openai"
	"palyra/internal/model/scripted"
	"palyra/internal/reason"
)

// models are what runs may ask.
type models struct {
	// byName has every configured model; an unusable one says why at its first
	// turn.
	byName map[string]model.Provider
	status []*palyrav1.ModelStatus
}

// openModels builds the providers. One that cannot be built keeps nothing from
// starting: the gateway does more than run models.
func openModels(ctx context.Context, list []config.Model, log *slog.Logger) models {
	out := models{byName: make(map[string]model.Provider, len(list))}
	for _, m := range list {
		status := &palyrav1.ModelStatus{Name: m.Name, Provider: m.Provider, Model: m.Model, Available: true}
		provider, err := openModel(m)
		if err != nil {
			why := problemOf(err)
			provider = unusable{m.Name, why}
			status.Available, status.Problem, status.Remedy = false, why.Message, why.NextStep()
			log.WarnContext(ctx, "a model is unavailable", slog.String("model", m.Name),
				slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
		}
		out.byName[m.Name], out.status = provider, append(out.status, status)
	}
	return out
}

func openModel(m config.Model) (model.Provider, error) {
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

func problemOf(err error) *reason.Error {
	var known *reason.Error
	if !errors.As(err, &known) {
		known = reason.Errorf(reason.ConfigInvalid, "%w", err)
	}
	return known
}

// unusable stands where a model is that cannot be used.
type unusable struct {
	name string
	why  *reason.Error
}

// Generate says why there is no turn.
func (u unusable) Generate(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
	return model.Turn{}, reason.Errorf(reason.ModelRejected, "model %s cannot be used: %s", u.name, u.why.Message).
		WithRemedy("%s Then restart palyrad.", u.why.NextStep())
}
