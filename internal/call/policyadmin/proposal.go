package policyadmin

import (
	"context"
	"log/slog"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Proposal is a set of policies that somebody wants in force. It holds the very texts:
// what the directory has by the time that it is enacted does not count.
type Proposal struct {
	// Version is that of the set, and Was of the one in force.
	Version, Was string
	// Sources are the operator's files, and WasSources those in force.
	Sources, WasSources []policy.Source
	// Activated and WasActivated say which counts in place of the directory.
	Activated, WasActivated bool
	candidate               candidate
}

// Changes reports whether enacting it changes anything.
func (p Proposal) Changes() bool {
	return p.Version != p.Was || p.Activated != p.WasActivated
}

// Propose reads a kept version, or the policy directory for "", as a set that is to
// come into force. It loads and its tests pass; nothing changes.
func (p *Admin) Propose(ctx context.Context, by access.Caller, version string) (Proposal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.wanted(ctx, by.Principal.String(), version)
	if err != nil {
		return Proposal{}, err
	}
	return p.propose(ctx, by.Principal.String(), c)
}

// wanted is the candidate of a version, or of the directory. The caller holds p.mu.
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

// propose is Propose of a candidate. The caller holds p.mu.
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

// takesTwo reports whether a change of what is in force takes a second person, so that
// the directory alone changes nothing.
func (p *Admin) takesTwo() bool { return p.use.TakesTwo != nil && p.use.TakesTwo() }

// directoryProposed notes that the directory differs from what is in force, and
// leaves that in force. Each version is journaled once. The caller holds p.mu.
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
		p.running, p.proposed = c, "" // only comments or names of files differ, which take no second person
		return nil
	}
	p.proposed = proposal.Version
	p.use.Log.WarnContext(ctx, "the policy directory changed, and a second person has to approve that: `palyra policy reload` asks for it",
		slog.String("version", proposal.Version))
	return p.use.Journal.Record(context.WithoutCancel(ctx), event.PolicyProposed, journal.Daemon, "", policyProposed{
		Version: proposal.Version, WasVersion: proposal.Was, Policies: len(c.sources),
	})
}
