package policyadmin

import (
	"context"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
)

// Proposal is a set of policies proposed to come into force. It holds the texts themselves:
// later changes of the directory do not affect it.
type Proposal struct {
	// Version is the version of the set, and Was the version of the set in force.
	Version, Was string
	// Sources are the operator's files, and WasSources those in force.
	Sources, WasSources []policy.Source
	// Activated and WasActivated are true for a version that replaces the directory.
	Activated, WasActivated bool
	candidate               candidate
}

// Changes reports whether enacting the proposal changes anything.
func (p Proposal) Changes() bool {
	return p.Version != p.Was || p.Activated != p.WasActivated
}

// Proposals prepares sets that need a second person, and puts them in force.
type Proposals struct {
	active  *Active
	loader  *Loader
	history *History
	guard   change.Guard
}

// Propose reads a stored version, or the policy directory for "", as a proposal. It fails
// unless the proposal loads and its tests pass. It changes nothing.
func (p *Proposals) Propose(ctx context.Context, by access.Caller, version string) (Proposal, error) {
	p.active.mu.Lock()
	defer p.active.mu.Unlock()
	c, err := p.candidate(ctx, by.Principal.String(), version)
	if err != nil {
		return Proposal{}, err
	}
	return p.active.propose(ctx, by.Principal.String(), c)
}

// candidate returns the candidate of a version, or of the directory. The caller holds
// p.active.mu.
func (p *Proposals) candidate(ctx context.Context, actor, version string) (candidate, error) {
	if version == "" {
		return p.loader.candidate(ctx, actor)
	}
	return p.history.candidate(ctx, version)
}

// propose returns a candidate as a proposal, if it loads and its tests pass. The caller holds
// a.mu.
func (a *Active) propose(ctx context.Context, actor string, c candidate) (Proposal, error) {
	b, err := a.build(ctx, actor, c)
	if err != nil {
		return Proposal{}, err
	}
	return Proposal{
		Version: b.chosen.set.Version(), Was: a.engine.Current().Version(), candidate: c,
		Sources: c.sources, WasSources: slices.Clone(a.running.sources), Activated: c.activated, WasActivated: a.running.activated,
	}, nil
}

// Enact puts a proposal in force.
func (p *Proposals) Enact(ctx context.Context, by access.Caller, proposal Proposal) (Reloaded, error) {
	kind := change.ReloadPolicy
	if proposal.Activated {
		kind = change.ActivatePolicy
	}
	if err := p.guard.Check(ctx, kind); err != nil {
		return Reloaded{}, err
	}
	p.active.mu.Lock()
	defer p.active.mu.Unlock()
	return p.active.apply(ctx, by.Principal.String(), proposal.candidate)
}
