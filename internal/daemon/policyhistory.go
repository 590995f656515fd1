package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"palyra/internal/access"
	"palyra/internal/policy"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
)

func keptSources(v sqlite.PolicyVersion) (sources []policy.Source, err error) {
	if err := json.Unmarshal(v.Sources, &sources); err != nil {
		return nil, fmt.Errorf("reading the sources of policy version %s: %w", v.Version, err)
	}
	return sources, nil
}

// Activate puts a kept version in force for an operator, in place of the policy
// directory. Its files are loaded with the defaults, the members and the tools
// as they are now, so that the set can have another version.
func (p *policies) Activate(ctx context.Context, by access.Caller, version string) (rpc.Reloaded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept, err := p.g.db.PolicyVersion(ctx, version)
	if err != nil {
		return rpc.Reloaded{}, err
	}
	sources, err := keptSources(kept)
	if err != nil {
		return rpc.Reloaded{}, err
	}
	return p.apply(ctx, by.Principal.String(), candidate{sources: sources, activated: true})
}

// Version finds a kept version by its digest or the beginning of it.
func (p *policies) Version(ctx context.Context, version string) (rpc.PolicyVersion, error) {
	kept, err := p.g.db.PolicyVersion(ctx, version)
	if err != nil {
		return rpc.PolicyVersion{}, err
	}
	return p.describe(kept)
}

// Versions lists one page of kept versions, newest first. The token is a
// position.
func (p *policies) Versions(ctx context.Context, size int, token string) ([]rpc.PolicyVersion, string, error) {
	size, before, err := pageOf(size, token)
	if err != nil {
		return nil, "", err
	}
	page, err := p.g.db.PolicyVersions(ctx, before, size)
	if err != nil {
		return nil, "", err
	}
	list := make([]rpc.PolicyVersion, len(page))
	for i, v := range page {
		if list[i], err = p.describe(v); err != nil {
			return nil, "", err
		}
	}
	if len(page) < size {
		return list, "", nil
	}
	return list, strconv.FormatInt(page[len(page)-1].Position, 10), nil
}

func (p *policies) describe(v sqlite.PolicyVersion) (rpc.PolicyVersion, error) {
	sources, err := keptSources(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	inForce := p.g.engine.Current().Version() == v.Version
	return rpc.PolicyVersion{
		Version: v.Version, FirstLoadedAt: v.At, LoadedBy: v.LoadedBy, Policies: v.Policies, Sources: sources,
		InForce: inForce, Activated: inForce && p.running.activated,
	}, err
}
