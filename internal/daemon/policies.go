package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/policy"
	policyfinding "palyra/internal/policy/finding"
	"palyra/internal/policy/lint"
	"palyra/internal/policy/policytests"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
	"palyra/internal/tool"
)

// policies loads policy sets and puts them in force.
type policies struct {
	g *gateway
	// changed is told when members changed.
	changed chan struct{}

	mu sync.Mutex
	// running is what is in force.
	running  candidate
	loadedAt time.Time
	// ignored says that the directory changed while an activated version was in
	// force.
	ignored bool
	// suspended are the tools that wait for a policy that fits them.
	suspended map[string]error
}

// candidate is what may come into force.
type candidate struct {
	// sources are the operator's files.
	sources []policy.Source
	// tests have to pass.
	tests []policy.Source
	// activated says that an operator chose a kept version: it counts in place
	// of the directory.
	activated bool
}

var _ rpc.Policies = (*policies)(nil)

func newPolicies(g *gateway) *policies {
	p := &policies{g: g, changed: make(chan struct{}, 1)}
	g.registry.Subscribe(func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
	return p
}

// load loads the set for the first time; nothing starts without one. A version
// that was activated stays activated.
func (p *policies) load(ctx context.Context) error {
	kept, activated, err := p.g.db.ActivatedPolicy(ctx)
	if err != nil {
		return err
	}
	if !activated {
		_, err := p.reload(ctx, journal.Daemon)
		return err
	}
	sources, err := keptSources(kept)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.apply(ctx, journal.Daemon, candidate{sources: sources, activated: true}); err != nil {
		return reason.Errorf(reason.Of(err), "policy version %s is activated: %w", kept.Version, err).
			WithRemedy("Return to the policy directory with `palyrad policy reset`, then start palyrad.")
	}
	p.g.log.WarnContext(ctx, "an activated policy version is in force, and not the policy directory; `palyra policy reload` returns to it",
		slog.String("version", p.g.engine.Current().Version()))
	return nil
}

// Reload reads the directory again for an operator, and ends an activation.
func (p *policies) Reload(ctx context.Context, by access.Caller) (rpc.Reloaded, error) {
	return p.reload(ctx, by.Principal.String())
}

func (p *policies) reload(ctx context.Context, actor string) (rpc.Reloaded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadDirectory(ctx, actor)
}

// loadDirectory is reload for a caller that holds p.mu.
func (p *policies) loadDirectory(ctx context.Context, actor string) (rpc.Reloaded, error) {
	sources, tests, err := readPolicyDir(p.g.cfg.Policy.Dir)
	if err != nil {
		return rpc.Reloaded{}, p.reject(ctx, actor, err)
	}
	return p.apply(ctx, actor, candidate{sources: sources, tests: tests})
}

// rebuild makes the running set again from the members as they are now. Tests
// are about policies and do not keep a change of members from counting.
func (p *policies) rebuild(ctx context.Context, actor string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.apply(ctx, actor, candidate{sources: p.running.sources, activated: p.running.activated})
	return err
}

// directoryChanged loads the directory, unless a version was activated: then
// nothing but the operator's reload does.
func (p *policies) directoryChanged(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running.activated {
		_, err := p.loadDirectory(ctx, journal.Daemon)
		return err
	}
	p.ignored = true
	p.g.log.WarnContext(ctx, "the policy directory changed and does not count: a version is activated; `palyra policy reload` returns to the directory")
	return nil
}

type policyLoaded struct {
	Version        string `json:"policy_version"`
	SnapshotDigest string `json:"snapshot_digest"`
	WasVersion     string `json:"was_version,omitempty"`
	Policies       int    `json:"policies"`
	Warnings       int    `json:"warnings"`
	Activated      bool   `json:"activated,omitempty"`
}

type policyRejected struct {
	Findings []policyfinding.Finding `json:"findings"`
	Message  string                  `json:"message"`
}

// apply builds a set from the candidate, the members and the settings as they
// are now, runs its tests, keeps it, and puts it in force. A set that does not
// load changes nothing, and the journal says so. The caller holds p.mu.
func (p *policies) apply(ctx context.Context, actor string, c candidate) (rpc.Reloaded, error) {
	now, pins, err := p.g.definitions(ctx)
	if err != nil {
		return rpc.Reloaded{}, err
	}
	chosen, err := choose(now, pins, func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error) {
		return policy.Load(p.g.policyConfig(c.sources, tools, suspended))
	})
	if err == nil && len(c.tests) > 0 {
		cfg := p.g.policyConfig(c.sources, resolve(now, pins, chosen.suspended), chosen.suspended)
		err = passes(ctx, cfg, c.tests)
	}
	if err != nil {
		return rpc.Reloaded{}, p.reject(ctx, actor, err)
	}
	if err := p.g.keepPins(ctx, now, pins, chosen); err != nil {
		return rpc.Reloaded{}, err
	}
	set := chosen.set
	was := p.g.engine.Current()
	result := rpc.Reloaded{Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), Warnings: lint.Set(set)}
	if was != nil {
		result.WasVersion = was.Version()
	}
	same := was != nil && was.SnapshotDigest() == set.SnapshotDigest()
	p.ignored = p.ignored && c.activated
	if same && c.activated == p.running.activated {
		p.suspend(ctx, chosen.suspended)
		return result, nil
	}
	result.Changed = true
	if err := p.keep(ctx, actor, set, c, result.WasVersion); err != nil {
		return rpc.Reloaded{}, err
	}
	if !same {
		p.g.engine.Swap(set)
		p.g.box.invalidate()
	}
	// A tool resumes only under the policies that fit it: after the swap.
	p.suspend(ctx, chosen.suspended)
	p.running, p.loadedAt = c, time.Now().UTC()
	p.logLoaded(ctx, set)
	return result, nil
}

// passes runs the tests of a candidate; one that fails keeps it from loading.
func passes(ctx context.Context, cfg policy.Config, tests []policy.Source) error {
	report, err := policytests.Run(ctx, cfg, tests)
	if err != nil {
		return err
	}
	if failures := report.Failures(); len(failures) > 0 {
		return &policyfinding.LoadError{Findings: failures}
	}
	return nil
}

func (p *policies) logLoaded(ctx context.Context, set *policy.Set) {
	p.g.log.InfoContext(ctx, "policy in force", slog.String("version", set.Version()), slog.String("snapshot", set.SnapshotDigest()))
	for _, w := range lint.Set(set) {
		// What a tool's schema keeps from policy is for those who write
		// policies: `palyra policy check` shows it.
		level := slog.LevelWarn
		if w.Code == policyfinding.CodeOpaque {
			level = slog.LevelDebug
		}
		p.g.log.Log(ctx, level, "policy warning", slog.String("finding", w.Message), slog.String("file", w.File), slog.Int("line", w.Line))
	}
}

// keep makes the set durable before it is in force, so that every decision's
// snapshot digest leads to its content.
func (p *policies) keep(ctx context.Context, actor string, set *policy.Set, c candidate, was string) error {
	text, err := json.Marshal(c.sources)
	if err != nil {
		return fmt.Errorf("encoding the policies: %w", err)
	}
	inputs, err := set.Inputs()
	if err != nil {
		return fmt.Errorf("encoding what the policy set is made of: %w", err)
	}
	count := len(set.Policies())
	draft, err := draftOf(event.PolicyLoaded, actor, "", policyLoaded{
		Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), WasVersion: was, Policies: count,
		Warnings: len(lint.Set(set)), Activated: c.activated,
	})
	if err != nil {
		return err
	}
	return p.g.db.PutPolicySet(context.WithoutCancel(ctx), sqlite.PolicySet{
		Version: set.Version(), Sources: text, SnapshotDigest: set.SnapshotDigest(), Snapshot: set.SnapshotJSON(),
		Inputs: inputs, Policies: count, LoadedBy: actor, Activated: c.activated,
	}, draft)
}

func (p *policies) reject(ctx context.Context, actor string, cause error) error {
	payload := policyRejected{Message: cause.Error(), Findings: []policyfinding.Finding{}}
	var load *policyfinding.LoadError
	if errors.As(cause, &load) {
		payload.Findings = load.Findings
	}
	draft, err := draftOf(event.PolicyRejected, actor, "", payload)
	if err == nil {
		_, err = p.g.journal.Append(context.WithoutCancel(ctx), draft)
	}
	return errors.Join(cause, err)
}

// Check finds what is wrong with sources under the schema of the tools as they
// are now, also of those that are suspended.
func (p *policies) Check(_ context.Context, sources []policy.Source) []policyfinding.Finding {
	return lint.Check(p.g.policyConfig(sources, p.g.router.Descriptors(), nil))
}

// Current returns what is in force.
func (p *policies) Current() rpc.PolicyInForce {
	p.mu.Lock()
	defer p.mu.Unlock()
	return rpc.PolicyInForce{
		Sources: append(policy.Defaults(), p.running.sources...), LoadedAt: p.loadedAt, Activated: p.running.activated,
	}
}

// config is what sources are simulated and tested with: the members, settings
// and tools as they are in force.
func (p *policies) config(ctx context.Context, sources []policy.Source) (policy.Config, error) {
	now, pins, err := p.g.definitions(ctx)
	if err != nil {
		return policy.Config{}, err
	}
	p.mu.Lock()
	suspended := p.suspended
	p.mu.Unlock()
	return p.g.policyConfig(sources, resolve(now, pins, suspended), suspended), nil
}

// Build makes a set of sources beside those in force, or in place of all of
// them. It does not come into force.
func (p *policies) Build(ctx context.Context, sources []policy.Source, replace bool) (*policy.Set, error) {
	if !replace {
		sources = p.beside(sources)
	}
	cfg, err := p.config(ctx, sources)
	if err != nil {
		return nil, err
	}
	return policy.Load(cfg)
}

// beside returns the sources in force with others beside them; of two with one
// name the other counts.
func (p *policies) beside(others []policy.Source) []policy.Source {
	p.mu.Lock()
	sources := slices.Clone(p.running.sources)
	p.mu.Unlock()
	for _, o := range others {
		i := slices.IndexFunc(sources, func(s policy.Source) bool { return s.Name == o.Name })
		if i < 0 {
			sources = append(sources, o)
		} else {
			sources[i] = o
		}
	}
	return sources
}

// Test runs tests against sources, or those in force when there are none.
func (p *policies) Test(ctx context.Context, sources, tests []policy.Source) (policytests.Report, error) {
	if len(sources) == 0 {
		sources = p.beside(nil)
	}
	cfg, err := p.config(ctx, sources)
	if err != nil {
		return policytests.Report{}, err
	}
	return policytests.Run(ctx, cfg, tests)
}

// notices are what an operator should know about what is in force. Nobody
// forgets an activation that the directory has moved on from.
func (p *policies) notices() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running.activated {
		return nil
	}
	text := "policy version " + p.g.engine.Current().Version() + " is activated, and the policy directory does not count"
	if p.ignored {
		text = "the policy directory changed and does not count: policy version " + p.g.engine.Current().Version() + " is activated"
	}
	return []string{text + "; `palyra policy reload` returns to the directory"}
}
