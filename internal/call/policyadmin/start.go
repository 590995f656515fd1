package policyadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/reason"
	"palyra/internal/core/trusted"
	"palyra/internal/evidence/journal"
)

// loadFirst loads the directory at the start. If the directory does not exist, the last set in
// force stays in force, as it does while palyrad runs. Moving the directory must not end its
// rules.
func (p *Admin) loadFirst(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir := p.use.Settings.Policy.Dir; dir != "" && !isThere(dir) {
		sources, err := p.lastInForce(ctx)
		if err != nil || len(sources) > 0 {
			return p.loadLast(ctx, dir, sources, err)
		}
	}
	if _, _, err := p.read(); errors.Is(err, trusted.ErrUntrusted) {
		return p.loadTrusted(ctx, err)
	}
	if p.takesTwo() {
		if done, err := p.loadProposed(ctx); done || err != nil {
			return err
		}
	}
	_, err := p.loadDirectory(ctx, journal.Daemon)
	return err
}

// loadTrusted uses the last set in force instead of a directory that other users could have
// changed. If no set was in force, palyrad does not start. The caller holds p.mu.
func (p *Admin) loadTrusted(ctx context.Context, why error) error {
	kept, found, err := p.use.Store.LastPolicy(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("reading the policy directory: %w", why)
	}
	sources, err := keptSources(kept)
	if err == nil {
		_, err = p.apply(ctx, journal.Daemon, candidate{sources: sources})
	}
	if err != nil {
		return reason.Errorf(reason.Of(why), "%w; the last active policies do not load: %w", why, err)
	}
	p.report(ctx, p.reject(ctx, journal.Daemon, why))
	return nil
}

// loadLast puts the policies of the last run in force, unless they could not be read. The
// caller holds p.mu.
func (p *Admin) loadLast(ctx context.Context, dir string, sources []policy.Source, err error) error {
	if err == nil {
		_, err = p.apply(ctx, journal.Daemon, candidate{sources: sources})
	}
	if err != nil {
		return reason.Errorf(reason.Of(err), "the policy directory %s is missing, and the last active policies do not load: %w", dir, err).
			WithRemedy("Create the directory again, empty if only the built-in policies should apply, then start palyrad.")
	}
	p.use.Log.WarnContext(ctx, "the policy directory is missing, and the last active policies stay active; create it again, empty to use the built-in policies alone",
		slog.String("policy_dir", dir), slog.String("version", p.use.Engine.Current().Version()))
	return nil
}

// loadProposed puts the last set in force again if the directory has changed since: the change
// was not approved while palyrad was stopped. It returns false if the directory is unchanged,
// or no set was in force. The caller holds p.mu.
func (p *Admin) loadProposed(ctx context.Context) (done bool, err error) {
	kept, found, err := p.use.Store.LastPolicy(ctx)
	if err != nil || !found {
		return false, err
	}
	last, err := keptSources(kept)
	if err != nil {
		return false, err
	}
	sources, _, err := p.read()
	if err == nil && slices.Equal(sources, last) {
		return false, nil
	}
	if _, err := p.apply(ctx, journal.Daemon, candidate{sources: last}); err != nil {
		return false, reason.Errorf(reason.Of(err), "the policy directory changed without a second person, and the last active policies do not load: %w", err).
			WithRemedy("Put the directory in force with `palyrad policy reset` on this host, then start palyrad.")
	}
	p.report(ctx, p.directoryProposed(ctx))
	return true, nil
}

// lastInForce returns the operator's files of the last set in force, or none.
func (p *Admin) lastInForce(ctx context.Context) ([]policy.Source, error) {
	kept, found, err := p.use.Store.LastPolicy(ctx)
	if err != nil || !found {
		return nil, err
	}
	return keptSources(kept)
}
