package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/vaultkey"
	rpcsecrets "palyra/internal/surface/api/things"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// openVault starts the search for the vault's key. An unavailable key does not prevent the
// start, because the next use of the key tries again.
func openVault(ctx context.Context, g *gateway, _ Options) (err error) {
	if g.kek, err = vaultkey.Open(g.cfg, g.journal.Gateway(), g.stores.journal, g.log); err != nil {
		return err
	}
	g.wrapper = vault.NewWrapper(g.kek, g.stores.secrets, g.stores.resultsKeys)
	g.stores.useVault(vault.Ring{Wrapper: g.wrapper})
	if s := g.kek.Status(ctx); !s.Locked {
		g.log.InfoContext(ctx, "the key of the vault is there", slog.String("backend", s.Backend))
	}
	return nil
}

// openSecrets creates the vault from the store and the keys, which may be locked.
func openSecrets(_ context.Context, g *gateway, _ Options) (err error) {
	own, err := ownSecrets(g.cfg)
	if err != nil {
		return err
	}
	g.vault, err = vault.New(vault.Config{
		Store: g.stores.secrets, Keys: g.wrapper, Judge: rpcsecrets.Judge{Engine: g.engine}, Gateway: g.journal.Gateway(), Own: own, Holders: holders(g.registry, g.skills.registry),
	})
	if err != nil {
		return err
	}
	g.identity.Directory.OnOwner(g.vault.Endings)
	g.lending.Serve(g.vault)
	g.mcpLogins.Serve(g.vault)
	return nil
}

// holders returns the lookup of the owner of an agent's or a skill's secrets.
func holders(members *access.Registry, skills *registry.Registry) vault.Holders {
	return func(kind vault.Kind, id string) string {
		switch kind {
		case vault.Agent:
			if m, known := members.Get(access.Agent(id)); known && !m.Removed() {
				return m.Owner.String()
			}
		case vault.Skill:
			if i, err := skills.Get(id, ""); err == nil {
				return i.KeyID
			}
		}
		return ""
	}
}

// ownSecrets returns the secrets that the gateway leases itself: keys of models, and the signing
// and sending credentials of notifications.
func ownSecrets(cfg *config.Config) (own []vault.Ref, err error) {
	for _, m := range cfg.Models {
		if m.APIKeySecret == "" {
			continue
		}
		ref, err := vault.ParseRef(m.APIKeySecret)
		if err != nil {
			return nil, fmt.Errorf("models: api_key_secret of %s: %w", m.Name, err)
		}
		own = append(own, ref)
	}
	for _, n := range cfg.Notify {
		for _, name := range n.OwnSecrets() {
			ref, err := vault.ParseRef(name)
			if err != nil {
				return nil, fmt.Errorf("notify: a secret of %s: %w", n.Name, err)
			}
			own = append(own, ref)
		}
	}
	return own, nil
}

// resumeEvery is the interval of attempts to complete an interrupted rekey while the keys are
// locked.
const resumeEvery = time.Minute

// resumeRekey completes a rekey that the last stop interrupted. Other parts do not wait for it:
// until then the old key decrypts everything.
func resumeRekey(ctx context.Context, g *gateway) error {
	for ctx.Err() == nil {
		done, err := g.vault.Keys.Resume(ctx)
		switch {
		case err == nil:
			if len(done.Unreadable) > 0 {
				g.log.WarnContext(ctx, "earlier keys are kept for secrets that cannot be read", slog.Int("secrets", len(done.Unreadable)))
			} else if len(done.Dropped) > 0 {
				g.log.InfoContext(ctx, "the vault was rekeyed to its end", slog.Int("keys", done.Rewrapped))
			}
			return nil
		case reason.Of(err) != reason.VaultLocked && ctx.Err() == nil: // package kek logs locked keys
			g.log.WarnContext(ctx, "the vault is not rekeyed to its end", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(resumeEvery):
		}
	}
	return nil
}

// keepLeases ends expired leases of secrets.
func keepLeases(ctx context.Context, g *gateway) error {
	return g.vault.Leases.Run(ctx, func(err error) {
		g.log.WarnContext(ctx, "the end of a lease is not in the journal", slog.Any("error", err))
	})
}

// examinedVault inspects the vault's key, whether or not the gateway runs.
func examinedVault(ctx context.Context, cfg *config.Config) (kek.Status, error) {
	gateway, err := storedGateway(cfg)
	if err != nil {
		return kek.Status{}, err
	}
	return vaultkey.Examine(ctx, cfg, gateway), nil
}

// storedGateway returns the id of the gateway of a state directory.
func storedGateway(cfg *config.Config) (string, error) {
	authority, err := ca.Inspect(statedir.Authority(cfg.StateDir), authorityOptions(cfg))
	if err != nil {
		return "", err
	}
	origin, _, err := journalkey.Origin(authority)
	return origin, err
}

// secretFiles maps names to secrets. The file of a secret is read each time the secret is
// requested.
type secretFiles map[string]config.Secret

// Secret returns the content of a secret's file.
func (f secretFiles) Secret(_ context.Context, name string) ([]byte, error) {
	s, ok := f[name]
	if !ok {
		return nil, reason.Errorf(reason.NotFound, "secret %s not found", name)
	}
	return s.Value()
}

// secrets returns the configured secrets, without reading their files.
func secrets(cfg *config.Config) ([]egress.Secret, error) {
	files := make(secretFiles, len(cfg.Secrets))
	var list []egress.Secret
	for _, s := range cfg.Secrets {
		hosts, err := egress.ParseRules(s.Hosts)
		if err != nil {
			return nil, fmt.Errorf("secrets: hosts of %s: %w", s.Name, err)
		}
		if s.Env != "" {
			if err := command.CheckEnv([]string{s.Env + "="}); err != nil {
				return nil, reason.Errorf(reason.ConfigInvalid, "secrets: env of %s: %w", s.Name, err).
					WithRemedy("Name a variable that programs read a credential from, such as GITHUB_TOKEN.")
			}
		}
		files[s.Name] = s
		list = append(list, egress.Secret{Name: s.Name, Env: s.Env, Header: s.Header, Hosts: hosts, Source: files})
	}
	return list, nil
}

// ofPrograms returns the secrets whose placeholders are given to programs.
func ofPrograms(list []egress.Secret) []egress.Secret {
	return slices.DeleteFunc(slices.Clone(list), func(s egress.Secret) bool { return s.Env == "" })
}

// tellSecrets logs the secrets that cannot be read now. Calls that use such a secret are refused
// until it can be read.
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
