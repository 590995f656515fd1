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

// Load loads the first set; palyrad does not start without one. An activated version stays
// activated, and the last set in force stays in force if the directory does not exist.
func (l *Loader) Load(ctx context.Context) error {
	if err := l.ceilings.load(ctx); err != nil {
		return err
	}
	kept, activated, err := l.active.store.ActivatedPolicy(ctx)
	if err != nil {
		return err
	}
	if !activated {
		return l.loadFirst(ctx)
	}
	sources, err := keptSources(kept)
	if err != nil {
		return err
	}
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	if _, err := l.active.apply(ctx, journal.Daemon, candidate{sources: sources, activated: true}); err != nil {
		return reason.Errorf(reason.Of(err), "policy version %s is activated: %w", kept.Version, err).
			WithRemedy("Return to the policy directory with `palyrad policy reset`, then start palyrad.")
	}
	l.active.log.WarnContext(ctx, "an activated policy version is in force, and not the policy directory; `palyra policy reload` returns to it",
		slog.String("version", l.active.engine.Current().Version()))
	return nil
}

// loadFirst loads the directory at the start. If the directory does not exist, the last set in
// force stays in force, as it does while palyrad runs. Moving the directory must not end its
// rules.
func (l *Loader) loadFirst(ctx context.Context) error {
	l.active.mu.Lock()
	defer l.active.mu.Unlock()
	if dir := l.settings.Policy.Dir; dir != "" && !isThere(dir) {
		sources, _, err := l.lastInForce(ctx)
		if err != nil || len(sources) > 0 {
			return l.loadLast(ctx, dir, sources, err)
		}
	}
	if _, _, err := ReadTrusted(l.settings); errors.Is(err, trusted.ErrUntrusted) {
		return l.loadTrusted(ctx, err)
	}
	if l.takesTwo() {
		if done, err := l.loadProposed(ctx); done || err != nil {
			return err
		}
	}
	_, err := l.loadDirectory(ctx, journal.Daemon)
	return err
}

// loadTrusted uses the last set in force instead of a directory that other users could have
// changed. If no set was in force, palyrad does not start. The caller holds l.active.mu.
func (l *Loader) loadTrusted(ctx context.Context, why error) error {
	kept, found, err := l.active.store.LastPolicy(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("reading the policy directory: %w", why)
	}
	sources, err := keptSources(kept)
	if err == nil {
		_, err = l.active.apply(ctx, journal.Daemon, candidate{sources: sources})
	}
	if err != nil {
		return reason.Errorf(reason.Of(why), "%w; the last active policies do not load: %w", why, err)
	}
	report(ctx, l.active.log, l.active.reject(ctx, journal.Daemon, why))
	return nil
}

// loadLast puts the policies of the last run in force, unless they could not be read. The
// caller holds l.active.mu.
func (l *Loader) loadLast(ctx context.Context, dir string, sources []policy.Source, err error) error {
	if err == nil {
		_, err = l.active.apply(ctx, journal.Daemon, candidate{sources: sources})
	}
	if err != nil {
		return reason.Errorf(reason.Of(err), "the policy directory %s is missing, and the last active policies do not load: %w", dir, err).
			WithRemedy("Create the directory again, empty if only the built-in policies should apply, then start palyrad.")
	}
	l.active.log.WarnContext(ctx, "the policy directory is missing, and the last active policies stay active; create it again, empty to use the built-in policies alone",
		slog.String("policy_dir", dir), slog.String("version", l.active.engine.Current().Version()))
	return nil
}

// loadProposed puts the last set in force again if the directory has changed since: the change
// was not approved while palyrad was stopped. It returns false if the directory is unchanged,
// or no set was in force. The caller holds l.active.mu.
func (l *Loader) loadProposed(ctx context.Context) (done bool, err error) {
	last, found, err := l.lastInForce(ctx)
	if err != nil || !found {
		return false, err
	}
	sources, _, err := ReadTrusted(l.settings)
	if err == nil && slices.Equal(sources, last) {
		return false, nil
	}
	if _, err := l.active.apply(ctx, journal.Daemon, candidate{sources: last}); err != nil {
		return false, reason.Errorf(reason.Of(err), "the policy directory changed without a second person, and the last active policies do not load: %w", err).
			WithRemedy("Put the directory in force with `palyrad policy reset` on this host, then start palyrad.")
	}
	report(ctx, l.active.log, l.directoryProposed(ctx))
	return true, nil
}

// lastInForce returns the operator's files of the last set in force, if any.
func (l *Loader) lastInForce(ctx context.Context) (sources []policy.Source, found bool, err error) {
	kept, found, err := l.active.store.LastPolicy(ctx)
	if err != nil || !found {
		return nil, false, err
	}
	sources, err = keptSources(kept)
	return sources, err == nil, err
}
