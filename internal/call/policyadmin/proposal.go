package policyadmin

import (
	"context"
	"log/slog"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
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

// Propose reads a stored version, or the policy directory for "", as a proposal. It fails
// unless the proposal loads and its tests pass. It changes nothing.
func (p *Admin) Propose(ctx context.Context, by access.Caller, version string) (Proposal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.wanted(ctx, by.Principal.String(), version)
	if err != nil {
		return Proposal{}, err
	}
	return p.propose(ctx, by.Principal.String(), c)
}

// wanted returns the candidate of a version, or of the directory. The caller holds p.mu.
func (p *Admin) wanted(ctx context.Context, actor, version string) (candidate, error) {
	if version == "" {
		sources, tests, err := p.own()
		if err != nil {
			return candidate{}, p.reject(ctx, actor, err)
		}
		return candidate{sources: sources, tests: tests}, nil
	}
	kept, err := p.use.Store.PolicyVersion(ctx, version)
	if err != nil {
		return candidate{}, err
	}
	sources, err := keptSources(kept)
	return candidate{sources: sources, activated: true}, err
}

// propose is Propose for a candidate. The caller holds p.mu.
func (p *Admin) propose(ctx context.Context, actor string, c candidate) (Proposal, error) {
	b, err := p.build(ctx, actor, c)
	if err != nil {
		return Proposal{}, err
	}
	return Proposal{
		Version: b.chosen.set.Version(), Was: p.use.Engine.Current().Version(), candidate: c,
		Sources: c.sources, WasSources: slices.Clone(p.running.sources), Activated: c.activated, WasActivated: p.running.activated,
	}, nil
}

// Enact puts a proposal in force.
func (p *Admin) Enact(ctx context.Context, by access.Caller, proposal Proposal) (Reloaded, error) {
	kind := change.ReloadPolicy
	if proposal.Activated {
		kind = change.ActivatePolicy
	}
	if err := p.use.Guard.Check(ctx, kind); err != nil {
		return Reloaded{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.apply(ctx, by.Principal.String(), proposal.candidate)
}

// policyProposed is the payload of event.PolicyProposed.
type policyProposed struct {
	Version    string `json:"policy_version"`
	WasVersion string `json:"was_version"`
	Policies   int    `json:"policies"`
}

// takesTwo reports whether a change of the set in force needs a second person, so that a change
// of the directory alone has no effect.
func (p *Admin) takesTwo() bool { return p.use.TakesTwo != nil && p.use.TakesTwo() }

// directoryProposed records that the directory differs from the set in force, which stays in
// force. Each version is journaled once. The caller holds p.mu.
func (p *Admin) directoryProposed(ctx context.Context) error {
	c, err := p.wanted(ctx, journal.Daemon, "")
	if err != nil {
		return err
	}
	if slices.Equal(c.sources, p.running.sources) && !p.running.activated {
		p.proposed = ""
		return nil
	}
	proposal, err := p.propose(ctx, journal.Daemon, c)
	if err != nil || proposal.Version == p.proposed {
		return err
	}
	if proposal.Version == proposal.Was && !p.running.activated {
		p.running, p.proposed = c, "" // only comments or file names differ, which need no second person
		return nil
	}
	p.proposed = proposal.Version
	p.use.Log.WarnContext(ctx, "the policy directory changed, and a second person has to approve that: `palyra policy reload` asks for it",
		slog.String("version", proposal.Version))
	return p.use.Journal.Record(context.WithoutCancel(ctx), event.PolicyProposed, journal.Daemon, "", policyProposed{
		Version: proposal.Version, WasVersion: proposal.Was, Policies: len(c.sources),
	})
}
