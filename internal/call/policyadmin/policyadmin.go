// Package policyadmin loads the operator's policies and puts them in force. It stores every
// version that was in force, pins the tool definitions that policies were written for, and
// finds the set that judged a past call. It makes no decisions.
package policyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/call/policy"
	policyfinding "palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// Config is the configuration of an Admin.
type Config struct {
	// Settings are the operator's; policy.dir is the directory that is loaded.
	Settings *config.Config
	Store    Store
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Grants finds the grants that allowed calls.
	Grants  Grants
	Journal Journal
	Engine  *policy.Engine
	Members Members
	// Provenance returns the history of creations, changes and confirmations of members; nil
	// means an empty history.
	Provenance func() provenance.History
	Tools      Tools
	// Cut ends the open connections and calls of a principal that is excluded from now on; nil
	// does nothing.
	Cut func(access.Principal, *reason.Error)
	// TakesTwo reports whether a change of the set needs a second person's approval. Callers of
	// Activate, Reload and Enact have obtained it; a change of the directory has not. Nil means
	// that no approval is needed.
	TakesTwo func() bool
	// Swapped is called after another set has come into force.
	Swapped func()
	Log     *slog.Logger
}

// Journal writes the events of policies and reads the events of calls.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
	List(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// Members are the members that policies refer to.
type Members interface {
	List() []access.Member
	Roles() []access.Role
	// Subscribe registers changed, which is called after each change until stop is called.
	Subscribe(changed func()) (stop func())
}

// Tools are the callable tools.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Suspend refuses calls of exactly these tools.
	Suspend(map[string]*reason.Error)
}

// Admin loads policy sets and puts them in force.
type Admin struct {
	use Config
	// changed is signalled when members changed.
	changed chan struct{}

	// checking limits checks to one at a time: a check uses a core, and calls need the others.
	checking sync.Mutex

	mu sync.Mutex
	// running is the candidate in force.
	running  candidate
	loadedAt time.Time
	// ignored is true if the directory changed while an activated version was in force.
	ignored bool
	// ceilings are the ceilings set by commands, ordered by name.
	ceilings []Ceiling
	// skills are the active skills, ordered and without duplicates.
	skills []string
	// proposed is the version of the directory that waits for a second person, or "".
	proposed string
	// suspended are the suspended tools.
	suspended map[string]error

	// built caches the last result of Build: one candidate is often evaluated for many calls.
	built atomic.Pointer[policy.Set]
}

// candidate has the operator's part of a set that may come into force.
type candidate struct {
	// sources are the operator's files.
	sources []policy.Source
	// tests must pass.
	tests []policy.Source
	// activated is true if an operator chose a stored version, which replaces the directory.
	activated bool
}

// InForce is the state in force in addition to the engine's set.
type InForce struct {
	// Sources have the defaults first.
	Sources  []policy.Source
	LoadedAt time.Time
	// Activated is true if an operator chose it instead of the directory.
	Activated bool
}

// Reloaded is the set in force after a reload or an activation.
type Reloaded struct {
	Version        string
	SnapshotDigest string
	// WasVersion is the previous version, "" at the start.
	WasVersion string
	Changed    bool
	Warnings   []policyfinding.Finding
}

// New returns an Admin without a set in force.
func New(c Config) *Admin {
	p := &Admin{use: c, changed: make(chan struct{}, 1)}
	c.Members.Subscribe(func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	})
	return p
}

// Load loads the first set; palyrad does not start without one. An activated version stays
// activated, and the last set in force stays in force if the directory does not exist.
func (p *Admin) Load(ctx context.Context) error {
	if err := p.loadCeilings(ctx); err != nil {
		return err
	}
	kept, activated, err := p.use.Store.ActivatedPolicy(ctx)
	if err != nil {
		return err
	}
	if !activated {
		return p.loadFirst(ctx)
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
	p.use.Log.WarnContext(ctx, "an activated policy version is in force, and not the policy directory; `palyra policy reload` returns to it",
		slog.String("version", p.use.Engine.Current().Version()))
	return nil
}

// Reload reads the directory again for an operator, and ends an activation.
func (p *Admin) Reload(ctx context.Context, by access.Caller) (Reloaded, error) {
	if err := p.use.Guard.Check(ctx, change.ReloadPolicy); err != nil {
		return Reloaded{}, err
	}
	return p.reload(ctx, by.Principal.String())
}

func (p *Admin) reload(ctx context.Context, actor string) (Reloaded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadDirectory(ctx, actor)
}

// signalled loads the directory, unless that needs a second person.
func (p *Admin) signalled(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.takesTwo() {
		return p.directoryProposed(ctx)
	}
	_, err := p.loadDirectory(ctx, journal.Daemon)
	return err
}

// loadDirectory is reload for a caller that holds p.mu.
func (p *Admin) loadDirectory(ctx context.Context, actor string) (Reloaded, error) {
	sources, tests, err := p.own()
	if err != nil {
		return Reloaded{}, p.reject(ctx, actor, err)
	}
	return p.apply(ctx, actor, candidate{sources: sources, tests: tests})
}

// Rebuild rebuilds the running set with the current members. Tests apply to policies and do not
// block a change of members.
func (p *Admin) Rebuild(ctx context.Context, actor string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.apply(ctx, actor, candidate{sources: p.running.sources, activated: p.running.activated})
	return err
}

// directoryChanged loads the directory, unless a version is activated: only the operator's
// reload ends an activation.
func (p *Admin) directoryChanged(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running.activated && p.takesTwo() {
		return p.directoryProposed(ctx)
	}
	if !p.running.activated {
		_, err := p.loadDirectory(ctx, journal.Daemon)
		return err
	}
	p.ignored = true
	p.use.Log.WarnContext(ctx, "the policy directory changed and does not count: a version is activated; `palyra policy reload` returns to the directory")
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

// apply builds a set from the candidate and the current members and settings, runs its tests,
// stores it, and puts it in force. A set that does not load changes nothing and is journaled.
// The caller holds p.mu.
func (p *Admin) apply(ctx context.Context, actor string, c candidate) (Reloaded, error) {
	b, err := p.build(ctx, actor, c)
	if err != nil {
		return Reloaded{}, err
	}
	if err := p.keepPins(ctx, b.now, b.pins, b.chosen); err != nil {
		return Reloaded{}, err
	}
	chosen, set := b.chosen, b.chosen.set
	was := p.use.Engine.Current()
	result := Reloaded{Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), Warnings: lint.Set(set)}
	if was != nil {
		result.WasVersion = was.Version()
	}
	same := was != nil && was.SnapshotDigest() == set.SnapshotDigest()
	p.ignored = p.ignored && c.activated
	if result.Version == p.proposed {
		p.proposed = ""
	}
	if same && c.activated == p.running.activated {
		p.running = c // its files may differ in comments
		p.suspend(ctx, chosen.suspended)
		return result, nil
	}
	result.Changed = true
	if err := p.keep(ctx, actor, set, c, result.WasVersion); err != nil {
		return Reloaded{}, err
	}
	if !same {
		p.use.Engine.Swap(set)
		p.use.Swapped()
	}
	// A tool resumes only under policies that fit it: after the swap.
	p.suspend(ctx, chosen.suspended)
	p.running, p.loadedAt = c, time.Now().UTC()
	p.logLoaded(ctx, set)
	return result, nil
}

// built is a candidate that loads and passes its tests.
type built struct {
	now    []definition
	pins   map[string]pin
	chosen pinned
}

// build builds a set from a candidate without changing anything else. A failure is journaled.
// The caller holds p.mu.
func (p *Admin) build(ctx context.Context, actor string, c candidate) (b built, err error) {
	if b.now, b.pins, err = p.definitions(ctx); err != nil {
		return b, err
	}
	b.chosen, err = choose(b.now, b.pins, p.use.Engine.Current(), func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error) {
		return loadUnless(p.use.Engine.Current(), p.setConfig(c.sources, tools, suspended))
	})
	if err == nil && len(c.tests) > 0 {
		cfg := p.setConfig(c.sources, resolve(b.now, b.pins, b.chosen.suspended), b.chosen.suspended)
		err = passes(ctx, cfg, c.tests)
	}
	if err != nil {
		return b, p.reject(ctx, actor, err)
	}
	return b, nil
}

// passes runs the tests of a candidate; a failed test prevents it from loading.
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

func (p *Admin) logLoaded(ctx context.Context, set *policy.Set) {
	p.use.Log.InfoContext(ctx, "policy in force", slog.String("version", set.Version()), slog.String("snapshot", set.SnapshotDigest()))
	for _, w := range lint.Set(set) {
		// Parts of a tool's schema that policy cannot read concern the authors of policies:
		// `palyra policy check` shows them.
		level := slog.LevelWarn
		if w.Code == policyfinding.CodeOpaque {
			level = slog.LevelDebug
		}
		p.use.Log.Log(ctx, level, "policy warning", slog.String("finding", w.Message), slog.String("file", w.File), slog.Int("line", w.Line))
	}
}

// keep makes the set durable before it is in force, so that the content of every decision's
// snapshot digest is stored.
func (p *Admin) keep(ctx context.Context, actor string, set *policy.Set, c candidate, was string) error {
	text, err := json.Marshal(c.sources)
	if err != nil {
		return fmt.Errorf("encoding the policies: %w", err)
	}
	inputs, err := set.Inputs()
	if err != nil {
		return fmt.Errorf("encoding the sources of the policy set: %w", err)
	}
	count := len(set.Policies())
	draft, err := event.DraftOf(event.PolicyLoaded, actor, "", policyLoaded{
		Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), WasVersion: was, Policies: count,
		Warnings: len(lint.Set(set)), Activated: c.activated,
	})
	if err == nil && set.Version() != was {
		// Otherwise a member or a tool changed, and not the policies.
		draft, err = draft.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return err
	}
	return p.use.Store.PutPolicySet(context.WithoutCancel(ctx), KeptSet{
		Version: set.Version(), Sources: text, SnapshotDigest: set.SnapshotDigest(), Snapshot: set.SnapshotJSON(),
		Inputs: inputs, Policies: count, LoadedBy: actor, Activated: c.activated,
	}, draft)
}

func (p *Admin) reject(ctx context.Context, actor string, cause error) error {
	payload := policyRejected{Message: cause.Error(), Findings: []policyfinding.Finding{}}
	var load *policyfinding.LoadError
	if errors.As(cause, &load) {
		payload.Findings = load.Findings
	}
	return errors.Join(cause, p.use.Journal.Record(context.WithoutCancel(ctx), event.PolicyRejected, actor, "", payload))
}

// Check returns the findings for sources under the schema of the current tools, including
// suspended ones.
func (p *Admin) Check(_ context.Context, sources []policy.Source) []policyfinding.Finding {
	p.checking.Lock()
	defer p.checking.Unlock()
	tools := p.use.Tools.Descriptors()
	p.mu.Lock()
	cfg := p.setConfig(sources, tools, nil)
	p.mu.Unlock()
	return lint.Check(cfg)
}

// Current returns the state in force.
func (p *Admin) Current() InForce {
	p.mu.Lock()
	defer p.mu.Unlock()
	return InForce{
		Sources: append(policy.Defaults(), p.running.sources...), LoadedAt: p.loadedAt, Activated: p.running.activated,
	}
}

// config returns the configuration for simulating and testing sources: with the members,
// settings and tools in force.
func (p *Admin) config(ctx context.Context, sources []policy.Source) (policy.Config, error) {
	now, pins, err := p.definitions(ctx)
	if err != nil {
		return policy.Config{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setConfig(sources, resolve(now, pins, p.suspended), p.suspended), nil
}

// Build builds a set of sources in addition to those in force, or in place of all of them. It
// does not come into force.
func (p *Admin) Build(ctx context.Context, sources []policy.Source, replace bool) (*policy.Set, error) {
	if !replace {
		sources = p.beside(sources)
	}
	cfg, err := p.config(ctx, sources)
	if err != nil {
		return nil, err
	}
	set, err := loadUnless(p.built.Load(), cfg)
	if err == nil {
		p.built.Store(set)
	}
	return set, err
}

// loadUnless returns the existing set, which may be nil, if it was built from cfg, and loads
// one otherwise.
func loadUnless(there *policy.Set, cfg policy.Config) (*policy.Set, error) {
	if there != nil && there.MadeOf(cfg) {
		return there, nil
	}
	return policy.Load(cfg)
}

// beside returns the sources in force together with others. A source of others replaces a
// source in force with the same name.
func (p *Admin) beside(others []policy.Source) []policy.Source {
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

// Test runs tests against sources, or against the sources in force if sources is empty.
func (p *Admin) Test(ctx context.Context, sources, tests []policy.Source) (policytests.Report, error) {
	if len(sources) == 0 {
		sources = p.beside(nil)
	}
	cfg, err := p.config(ctx, sources)
	if err != nil {
		return policytests.Report{}, err
	}
	return policytests.Run(ctx, cfg, tests)
}

// Notices are remarks for the operator about the state in force, such as an activation that has
// been followed by changes of the directory.
func (p *Admin) Notices() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proposed != "" {
		return []string{"the policy directory changed and is a proposal, not in force: `palyra policy reload` asks a second person for it"}
	}
	if !p.running.activated {
		return nil
	}
	text := "policy version " + p.use.Engine.Current().Version() + " is activated, and the policy directory does not count"
	if p.ignored {
		text = "the policy directory changed and does not count: policy version " + p.use.Engine.Current().Version() + " is activated"
	}
	return []string{text + "; `palyra policy reload` returns to the directory"}
}
