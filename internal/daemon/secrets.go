package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// secretFiles are secrets by name. Each is read when it is asked for.
type secretFiles map[string]config.Secret

// Secret returns what the file of a secret holds.
func (f secretFiles) Secret(_ context.Context, name string) ([]byte, error) {
	s, ok := f[name]
	if !ok {
		return nil, reason.Errorf(reason.NotFound, "there is no secret %s", name)
	}
	return s.Value()
}

// secrets are those of the configuration. Their files are not looked at.
func secrets(cfg *config.Config) ([]egress.Secret, error) {
	files := make(secretFiles, len(cfg.Secrets))
	var list []egress.Secret
	for _, s := range cfg.Secrets {
		hosts, err := egress.ParseRules(s.Hosts)
		if err != nil {
			return nil, fmt.Errorf("secrets: hosts of %s: %w", s.Name, err)
		}
		if s.Env != "" {
			if err := sandbox.CheckEnv([]string{s.Env + "="}); err != nil {
				return nil, reason.Errorf(reason.ConfigInvalid, "secrets: env of %s: %w", s.Name, err).
					WithRemedy("Name a variable that programs read a credential from, such as GITHUB_TOKEN.")
			}
		}
		files[s.Name] = s
		list = append(list, egress.Secret{Name: s.Name, Env: s.Env, Header: s.Header, Hosts: hosts, Source: files})
	}
	return list, nil
}

// ofPrograms are the secrets whose placeholder programs get.
func ofPrograms(list []egress.Secret) []egress.Secret {
	return slices.DeleteFunc(slices.Clone(list), func(s egress.Secret) bool { return s.Env == "" })
}

// tellSecrets says which secrets cannot be read as of now. Calls that use them
// are refused until they can.
func tellSecrets(ctx context.Context, list []config.Secret, log *slog.Logger) {
	for _, s := range list {
		value, err := s.Value()
		clear(value)
		if err != nil {
			why := reason.Known(err, reason.ConfigInvalid)
			log.WarnContext(ctx, "a secret cannot be used", slog.String("secret", s.Name),
				slog.String("problem", why.Message), slog.String("remedy", why.NextStep()))
		}
	}
}
