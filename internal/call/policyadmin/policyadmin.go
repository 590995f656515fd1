// Package policyadmin loads the operator's policies and puts them in force, keeps
// every version that was, pins the definitions of tools that policies were
// written for, and finds what judged a call of the past. It never decides.
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
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// Config is what an Admin works with.
type Config struct {
	// Settings are the operator's; policy.dir is the directory that is loaded.
	Settings *config.Config
	Store    Store
	// Grants finds the grants that calls were allowed by.
	Grants  Grants
	Journal Journal
	Engine  *policy.Engine
	Members Members
	// Provenance is who made, changed and confirmed the members; nil for nobody.
	Provenance func() provenance.History
	Tools      Tools
	// Cut ends what a principal has open, which is kept out from now on; nil for
	// nothing.
	Cut func(access.Principal, *reason.Error)
	// TakesTwo reports whether another set takes a second person's yes, which whoever
	// calls Activate, Reload or Enact has; the directory has not. Nil means that it
	// does not.
	TakesTwo func() bool
	// Swapped is told when another set came into force.
	Swapped func()
	Log     *slog.Logger
}

// Journal is where what happens to policies is written, and what happened to
// calls is read.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
	List(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// Members are those that policies know.
type Members interface {
	List() []access.Member
	Roles() []access.Role
	// Subscribe has changed called after each change, until stop is.
	Subscribe(changed func()) (stop func())
}

// Tools are those that may be called.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Suspend refuses calls of these tools, and of no others.
	Suspend(map[string]*reason.Error)
}

// Admin loads policy sets and puts them in force.
type Admin struct {
	use Config
	// changed is told when members changed.
	changed chan struct{}

	// checking lets one check run at a time: it takes a core, and calls need the
	// others.
	checking sync.Mutex

	mu sync.Mutex
	// running is what is in force.
	running  candidate
	loadedAt time.Time
	// ignored says that the directory changed while an activated version was in
	// force.
	ignored bool
	// ceilings are those that commands set, ordered by name.
	ceilings []Ceiling
	// skills are the active ones, ordered and each once.
	skills []string
	// proposed is the version of the directory that waits for a second person, "" for
	// none.
	proposed string
	// suspended are the tools that wait for a policy that fits them.
	suspended map[string]error

	// built is the set that Build returned last: one candidate is asked about many calls.
	built atomic.Pointer[policy.Set]
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

// InForce is what is in force beside the set that the engine has.
type InForce struct {
	// Sources have the defaults first.
	Sources  []policy.Source
	LoadedAt time.Time
	// Activated says that an operator chose it in place of the directory.
	Activated bool
}

// Reloaded is the set in force after a reload or an activation.
type Reloaded struct {
	Version        string
	SnapshotDigest string
	// WasVersion is the version before, "" at the start.
	WasVersion string
	Changed    bool
	Warnings   []policyfinding.Finding
}

// New returns an Admin that has put nothing in force yet.
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

// Load loads the set for the first time; nothing starts without one. A version
// that was activated stays activated, and what was in force last stays when the
// directory is not there.
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
	return p.reload(ctx, by.Principal.String())
}

func (p *Admin) reload(ctx context.Context, actor string) (Reloaded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadDirectory(ctx, actor)
}

// signalled loads the directory, unless that takes a second person.
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

// Rebuild makes the running set again from the members as they are now. Tests
// are about policies and do not keep a change of members from counting.
func (p *Admin) Rebuild(ctx context.Context, actor string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.apply(ctx, actor, candidate{sources: p.running.sources, activated: p.running.activated})
	return err
}

// directoryChanged loads the directory, unless a version was activated: then
// nothing but the operator's reload does.
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

// apply builds a set from the candidate, the members and the settings as they
// are now, runs its tests, keeps it, and puts it in force. A set that does not
// load changes nothing, and the journal says so. The caller holds p.mu.
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
	// A tool resumes only under the policies that fit it: after the swap.
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

// build makes a set of a candidate, which changes nothing. One that does not load is
// journaled. The caller holds p.mu.
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

func (p *Admin) logLoaded(ctx context.Context, set *policy.Set) {
	p.use.Log.InfoContext(ctx, "policy in force", slog.String("version", set.Version()), slog.String("snapshot", set.SnapshotDigest()))
	for _, w := range lint.Set(set) {
		// What a tool's schema keeps from policy is for those who write
		// policies: `palyra policy check` shows it.
		level := slog.LevelWarn
		if w.Code == policyfinding.CodeOpaque {
			level = slog.LevelDebug
		}
		p.use.Log.Log(ctx, level, "policy warning", slog.String("finding", w.Message), slog.String("file", w.File), slog.Int("line", w.Line))
	}
}

// keep makes the set durable before it is in force, so that every decision's
// snapshot digest leads to its content.
func (p *Admin) keep(ctx context.Context, actor string, set *policy.Set, c candidate, was string) error {
	text, err := json.Marshal(c.sources)
	if err != nil {
		return fmt.Errorf("encoding the policies: %w", err)
	}
	inputs, err := set.Inputs()
	if err != nil {
		return fmt.Errorf("encoding what the policy set is made of: %w", err)
	}
	count := len(set.Policies())
	draft, err := event.DraftOf(event.PolicyLoaded, actor, "", policyLoaded{
		Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), WasVersion: was, Policies: count,
		Warnings: len(lint.Set(set)), Activated: c.activated,
	})
	if err == nil && set.Version() != was {
		// Otherwise it is a member or a tool that changed, and not the policies.
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

// Check finds what is wrong with sources under the schema of the tools as they
// are now, also of those that are suspended.
func (p *Admin) Check(_ context.Context, sources []policy.Source) []policyfinding.Finding {
	p.checking.Lock()
	defer p.checking.Unlock()
	tools := p.use.Tools.Descriptors()
	p.mu.Lock()
	cfg := p.setConfig(sources, tools, nil)
	p.mu.Unlock()
	return lint.Check(cfg)
}

// Current returns what is in force.
func (p *Admin) Current() InForce {
	p.mu.Lock()
	defer p.mu.Unlock()
	return InForce{
		Sources: append(policy.Defaults(), p.running.sources...), LoadedAt: p.loadedAt, Activated: p.running.activated,
	}
}

// config is what sources are simulated and tested with: the members, settings
// and tools as they are in force.
func (p *Admin) config(ctx context.Context, sources []policy.Source) (policy.Config, error) {
	now, pins, err := p.definitions(ctx)
	if err != nil {
		return policy.Config{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.setConfig(sources, resolve(now, pins, p.suspended), p.suspended), nil
}

// Build makes a set of sources beside those in force, or in place of all of
// them. It does not come into force.
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

// loadUnless returns the set that is there, which may be nil, if it was made of cfg, and
// loads one otherwise.
func loadUnless(there *policy.Set, cfg policy.Config) (*policy.Set, error) {
	if there != nil && there.MadeOf(cfg) {
		return there, nil
	}
	return policy.Load(cfg)
}

// beside returns the sources in force with others beside them; of two with one
// name the other counts.
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

// Test runs tests against sources, or those in force when there are none.
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

// Notices are what an operator should know about what is in force. Nobody
// forgets an activation that the directory has moved on from.
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
