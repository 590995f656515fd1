package policyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"palyra/internal/call/policy"
	policyfinding "palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// Active is the set in force with the state that it was built from. All changes of it happen
// under its mutex, which is held until the set is stored and in force.
type Active struct {
	engine     *policy.Engine
	settings   *config.Config
	members    Members
	provenance func() provenance.History
	pins       *Pins
	store      VersionStore
	journal    Journal
	swapped    func()
	log        *slog.Logger

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

// Current returns the state in force.
func (a *Active) Current() InForce {
	a.mu.Lock()
	defer a.mu.Unlock()
	return InForce{
		Sources: append(policy.Defaults(), a.running.sources...), LoadedAt: a.loadedAt, Activated: a.running.activated,
	}
}

// Rebuild rebuilds the running set with the current members. Tests apply to policies and do not
// block a change of members.
func (a *Active) Rebuild(ctx context.Context, actor string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.reapply(ctx, actor)
	return err
}

// SetSkills sets the active skills: calls of other skills' tools are denied, regardless of
// policies. The change is in force when SetSkills returns. Before Load, when no set is in
// force, the skills are included by Load.
func (a *Active) SetSkills(ctx context.Context, active []string) error {
	var list []string
	if len(active) > 0 {
		list = slices.Compact(slices.Sorted(slices.Values(active)))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skills = list
	if a.engine.Current() == nil {
		return nil
	}
	// A deactivation must be completed even if its caller has disconnected.
	ctx = context.WithoutCancel(ctx)
	_, err := a.reapply(ctx, journal.Daemon)
	return err
}

// reapply builds the candidate in force again. The caller holds a.mu.
func (a *Active) reapply(ctx context.Context, actor string) (Reloaded, error) {
	return a.apply(ctx, actor, candidate{sources: a.running.sources, activated: a.running.activated})
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
// The caller holds a.mu.
func (a *Active) apply(ctx context.Context, actor string, c candidate) (Reloaded, error) {
	b, err := a.build(ctx, actor, c)
	if err != nil {
		return Reloaded{}, err
	}
	if err := a.pins.keep(ctx, b.now, b.pins, b.chosen); err != nil {
		return Reloaded{}, err
	}
	chosen, set := b.chosen, b.chosen.set
	was := a.engine.Current()
	result := Reloaded{Version: set.Version(), SnapshotDigest: set.SnapshotDigest(), Warnings: lint.Set(set)}
	if was != nil {
		result.WasVersion = was.Version()
	}
	same := was != nil && was.SnapshotDigest() == set.SnapshotDigest()
	a.ignored = a.ignored && c.activated
	if result.Version == a.proposed {
		a.proposed = ""
	}
	if same && c.activated == a.running.activated {
		a.running = c // its files may differ in comments
		a.pins.suspend(ctx, chosen.suspended)
		return result, nil
	}
	result.Changed = true
	if err := a.keep(ctx, actor, set, c, result.WasVersion); err != nil {
		return Reloaded{}, err
	}
	if !same {
		a.engine.Swap(set)
		a.swapped()
	}
	// A tool resumes only under policies that fit it: after the swap.
	a.pins.suspend(ctx, chosen.suspended)
	a.running, a.loadedAt = c, time.Now().UTC()
	a.logLoaded(ctx, set)
	return result, nil
}

// built is a candidate that loads and passes its tests.
type built struct {
	now    []definition
	pins   map[string]pin
	chosen pinned
}

// build builds a set from a candidate without changing anything else. A failure is journaled.
// The caller holds a.mu.
func (a *Active) build(ctx context.Context, actor string, c candidate) (b built, err error) {
	if b.now, b.pins, err = a.pins.definitions(ctx); err != nil {
		return b, err
	}
	b.chosen, err = choose(b.now, b.pins, a.engine.Current(), func(tools []tool.Descriptor, suspended map[string]error) (*policy.Set, error) {
		return loadUnless(a.engine.Current(), a.setConfig(c.sources, tools, suspended))
	})
	if err == nil && len(c.tests) > 0 {
		cfg := a.setConfig(c.sources, resolve(b.now, b.pins, b.chosen.suspended), b.chosen.suspended)
		err = passes(ctx, cfg, c.tests)
	}
	if err != nil {
		return b, a.reject(ctx, actor, err)
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

func (a *Active) logLoaded(ctx context.Context, set *policy.Set) {
	a.log.InfoContext(ctx, "policy in force", slog.String("version", set.Version()), slog.String("snapshot", set.SnapshotDigest()))
	for _, w := range lint.Set(set) {
		// Parts of a tool's schema that policy cannot read concern the authors of policies:
		// `palyra policy check` shows them.
		level := slog.LevelWarn
		if w.Code == policyfinding.CodeOpaque {
			level = slog.LevelDebug
		}
		a.log.Log(ctx, level, "policy warning", slog.String("finding", w.Message), slog.String("file", w.File), slog.Int("line", w.Line))
	}
}

// keep makes the set durable before it is in force, so that the content of every decision's
// snapshot digest is stored.
func (a *Active) keep(ctx context.Context, actor string, set *policy.Set, c candidate, was string) error {
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
	return a.store.PutPolicySet(context.WithoutCancel(ctx), KeptSet{
		Version: set.Version(), Sources: text, SnapshotDigest: set.SnapshotDigest(), Snapshot: set.SnapshotJSON(),
		Inputs: inputs, Policies: count, LoadedBy: actor, Activated: c.activated,
	}, draft)
}

// reject journals why a candidate does not load.
func (a *Active) reject(ctx context.Context, actor string, cause error) error {
	payload := policyRejected{Message: cause.Error(), Findings: []policyfinding.Finding{}}
	var load *policyfinding.LoadError
	if errors.As(cause, &load) {
		payload.Findings = load.Findings
	}
	return errors.Join(cause, a.journal.Record(context.WithoutCancel(ctx), event.PolicyRejected, actor, "", payload))
}

// loadUnless returns the existing set, which may be nil, if it was built from cfg, and loads
// one otherwise.
func loadUnless(there *policy.Set, cfg policy.Config) (*policy.Set, error) {
	if there != nil && there.MadeOf(cfg) {
		return there, nil
	}
	return policy.Load(cfg)
}
