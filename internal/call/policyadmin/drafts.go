package policyadmin

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"palyra/internal/call/policy"
	policyfinding "palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytests"
)

// Drafts checks, builds and tests sources that are not in force. It changes nothing.
type Drafts struct {
	active *Active
	tools  Tools
	// checking limits checks to one at a time: a check uses a core, and calls need the others.
	checking sync.Mutex
	// built caches the last result of Build: one candidate is often evaluated for many calls.
	built atomic.Pointer[policy.Set]
}

// Check returns the findings for sources under the schema of the current tools, including
// suspended ones.
func (d *Drafts) Check(_ context.Context, sources []policy.Source) []policyfinding.Finding {
	d.checking.Lock()
	defer d.checking.Unlock()
	tools := d.tools.Descriptors()
	d.active.mu.Lock()
	cfg := d.active.setConfig(sources, tools, nil)
	d.active.mu.Unlock()
	return lint.Check(cfg)
}

// Build builds a set of sources in addition to those in force, or in place of all of them. It
// does not come into force.
func (d *Drafts) Build(ctx context.Context, sources []policy.Source, replace bool) (*policy.Set, error) {
	if !replace {
		sources = d.active.beside(sources)
	}
	cfg, err := d.active.config(ctx, sources)
	if err != nil {
		return nil, err
	}
	set, err := loadUnless(d.built.Load(), cfg)
	if err == nil {
		d.built.Store(set)
	}
	return set, err
}

// Test runs tests against sources, or against the sources in force if sources is empty.
func (d *Drafts) Test(ctx context.Context, sources, tests []policy.Source) (policytests.Report, error) {
	if len(sources) == 0 {
		sources = d.active.beside(nil)
	}
	cfg, err := d.active.config(ctx, sources)
	if err != nil {
		return policytests.Report{}, err
	}
	return policytests.Run(ctx, cfg, tests)
}

// config returns the configuration for simulating and testing sources: with the members,
// settings and tools in force.
func (a *Active) config(ctx context.Context, sources []policy.Source) (policy.Config, error) {
	now, pins, err := a.pins.definitions(ctx)
	if err != nil {
		return policy.Config{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	suspended := a.pins.current()
	return a.setConfig(sources, resolve(now, pins, suspended), suspended), nil
}

// beside returns the sources in force together with others. A source of others replaces a
// source in force with the same name.
func (a *Active) beside(others []policy.Source) []policy.Source {
	a.mu.Lock()
	sources := slices.Clone(a.running.sources)
	a.mu.Unlock()
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
