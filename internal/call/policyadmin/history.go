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

// History has the stored versions, and puts one in force in place of the policy directory.
type History struct {
	active *Active
	guard  change.Guard
}

// Activate puts a stored version in force for an operator, instead of the policy directory. Its
// files are loaded with the current defaults, members and tools, so that the resulting set may
// have another version.
func (h *History) Activate(ctx context.Context, by access.Caller, version string) (Reloaded, error) {
	if err := h.guard.Check(ctx, change.ActivatePolicy); err != nil {
		return Reloaded{}, err
	}
	h.active.mu.Lock()
	defer h.active.mu.Unlock()
	c, err := h.candidate(ctx, version)
	if err != nil {
		return Reloaded{}, err
	}
	return h.active.apply(ctx, by.Principal.String(), c)
}

// candidate returns a stored version as a candidate.
func (h *History) candidate(ctx context.Context, version string) (candidate, error) {
	kept, err := h.active.store.PolicyVersion(ctx, version)
	if err != nil {
		return candidate{}, err
	}
	sources, err := keptSources(kept)
	return candidate{sources: sources, activated: true}, err
}

// Version finds a stored version by its digest or a prefix of it.
func (h *History) Version(ctx context.Context, version string) (Version, error) {
	kept, err := h.active.store.PolicyVersion(ctx, version)
	if err != nil {
		return Version{}, err
	}
	return h.describe(kept)
}

// Versions lists one page of stored versions, newest first. The token is a position.
func (h *History) Versions(ctx context.Context, size int, token string) ([]Version, string, error) {
	wanted, err := page.Parse(size, token)
	if err != nil {
		return nil, "", err
	}
	kept, err := h.active.store.PolicyVersions(ctx, wanted.Before, wanted.Size)
	if err != nil || len(kept) == 0 {
		return nil, "", err
	}
	list := make([]Version, len(kept))
	for i, v := range kept {
		if list[i], err = h.describe(v); err != nil {
			return nil, "", err
		}
	}
	return list, wanted.Next(len(kept), kept[len(kept)-1].Position), nil
}

func (h *History) describe(v KeptVersion) (Version, error) {
	sources, err := keptSources(v)
	h.active.mu.Lock()
	defer h.active.mu.Unlock()
	inForce := h.active.engine.Current().Version() == v.Version
	return Version{
		Version: v.Version, FirstLoadedAt: v.At, LoadedBy: v.LoadedBy, Policies: v.Policies, Sources: sources,
		InForce: inForce, Activated: inForce && h.active.running.activated,
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
