package policyadmin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/page"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// Version is a set that was in force.
type Version struct {
	Version       string
	FirstLoadedAt time.Time
	LoadedBy      string
	// Policies includes the default policies.
	Policies  int
	Sources   []policy.Source
	InForce   bool
	Activated bool
}

func keptSources(v KeptVersion) (sources []policy.Source, err error) {
	if err := json.Unmarshal(v.Sources, &sources); err != nil {
		return nil, fmt.Errorf("reading the sources of policy version %s: %w", v.Version, err)
	}
	return sources, nil
}

// Activate puts a stored version in force for an operator, instead of the policy directory. Its
// files are loaded with the current defaults, members and tools, so that the resulting set may
// have another version.
func (p *Admin) Activate(ctx context.Context, by access.Caller, version string) (Reloaded, error) {
	if err := p.use.Guard.Check(ctx, change.ActivatePolicy); err != nil {
		return Reloaded{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept, err := p.use.Store.PolicyVersion(ctx, version)
	if err != nil {
		return Reloaded{}, err
	}
	sources, err := keptSources(kept)
	if err != nil {
		return Reloaded{}, err
	}
	return p.apply(ctx, by.Principal.String(), candidate{sources: sources, activated: true})
}

// Version finds a stored version by its digest or a prefix of it.
func (p *Admin) Version(ctx context.Context, version string) (Version, error) {
	kept, err := p.use.Store.PolicyVersion(ctx, version)
	if err != nil {
		return Version{}, err
	}
	return p.describe(kept)
}

// Versions lists one page of stored versions, newest first. The token is a position.
func (p *Admin) Versions(ctx context.Context, size int, token string) ([]Version, string, error) {
	wanted, err := page.Parse(size, token)
	if err != nil {
		return nil, "", err
	}
	kept, err := p.use.Store.PolicyVersions(ctx, wanted.Before, wanted.Size)
	if err != nil || len(kept) == 0 {
		return nil, "", err
	}
	list := make([]Version, len(kept))
	for i, v := range kept {
		if list[i], err = p.describe(v); err != nil {
			return nil, "", err
		}
	}
	return list, wanted.Next(len(kept), kept[len(kept)-1].Position), nil
}

func (p *Admin) describe(v KeptVersion) (Version, error) {
	sources, err := keptSources(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	inForce := p.use.Engine.Current().Version() == v.Version
	return Version{
		Version: v.Version, FirstLoadedAt: v.At, LoadedBy: v.LoadedBy, Policies: v.Policies, Sources: sources,
		InForce: inForce, Activated: inForce && p.running.activated,
	}, err
}

// Reset makes the policy directory effective from the next start of palyrad. It changes the
// store of a stopped daemon. An activation ends, and the directory may differ from the set that
// was in force last. It returns the version that was in force last.
func Reset(ctx context.Context, store Store) (version string, err error) {
	kept, found, err := store.LastPolicy(ctx)
	if err != nil {
		return "", err
	}
	if !found {
		return "", reason.Errorf(reason.NotFound, "the policy directory is already effective from the next start")
	}
	draft, err := event.DraftOf(event.PolicyReset, journal.Daemon, "", struct {
		Version string `json:"policy_version"`
	}{kept.Version})
	if err != nil {
		return "", err
	}
	return kept.Version, store.ResetPolicy(ctx, draft)
}
