// Package policyadmintest provides an in-memory store of policy sets and the conformance suite
// of such stores.
package policyadmintest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policyadmin"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal/journaltest"
)

// Memory is a policyadmin.Store in memory.
type Memory struct {
	journaltest.Memory
	versions  []policyadmin.KeptVersion // in the order in which they were loaded first
	sets      map[string]policyadmin.KeptSet
	activated string
	last      string
	pins      map[string]policyadmin.Pin
	ceilings  map[string]policyadmin.Ceiling
}

var _ policyadmin.Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{sets: make(map[string]policyadmin.KeptSet), pins: make(map[string]policyadmin.Pin), ceilings: make(map[string]policyadmin.Ceiling)}
}

// update writes events and runs change, or does neither.
func (m *Memory) update(events []event.Draft, change func(now time.Time)) error {
	m.Lock()
	defer m.Unlock()
	now, err := m.Write(events, nil)
	if err == nil {
		change(now)
	}
	return err
}

// PutPolicySet stores a set and its snapshot.
func (m *Memory) PutPolicySet(_ context.Context, s policyadmin.KeptSet, loaded event.Draft) error {
	return m.update([]event.Draft{loaded}, func(now time.Time) {
		if !slices.ContainsFunc(m.versions, func(v policyadmin.KeptVersion) bool { return v.Version == s.Version }) {
			m.versions = append(m.versions, policyadmin.KeptVersion{
				Position: int64(len(m.versions) + 1), Version: s.Version, Sources: s.Sources, At: now, LoadedBy: s.LoadedBy, Policies: s.Policies,
			})
		}
		m.last = s.Version
		if m.activated = ""; s.Activated {
			m.activated = s.Version
		}
		if known, ok := m.sets[s.SnapshotDigest]; !ok || known.Inputs == nil {
			m.sets[s.SnapshotDigest] = s
		}
	})
}

// PolicyVersion finds a version by its digest or a prefix of it.
func (m *Memory) PolicyVersion(_ context.Context, beginning string) (policyadmin.KeptVersion, error) {
	m.Lock()
	defer m.Unlock()
	const prefix = "sha256:"
	var found []policyadmin.KeptVersion
	for _, v := range m.versions {
		if strings.HasPrefix(v.Version, prefix+strings.TrimPrefix(beginning, prefix)) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		return policyadmin.KeptVersion{}, reason.Errorf(reason.NotFound, "no policy version begins with %s", beginning)
	case 1:
		return found[0], nil
	}
	return policyadmin.KeptVersion{}, reason.Errorf(reason.InvalidInput, "several policy versions begin with %s", beginning)
}

// PolicyVersions lists at most limit versions, newest first.
func (m *Memory) PolicyVersions(_ context.Context, before int64, limit int) ([]policyadmin.KeptVersion, error) {
	m.Lock()
	defer m.Unlock()
	list := slices.DeleteFunc(slices.Clone(m.versions), func(v policyadmin.KeptVersion) bool { return before != 0 && v.Position >= before })
	slices.Reverse(list)
	return list[:min(limit, len(list))], nil
}

// ActivatedPolicy returns the version that an operator activated, if any.
func (m *Memory) ActivatedPolicy(ctx context.Context) (policyadmin.KeptVersion, bool, error) {
	return m.one(ctx, &m.activated)
}

// LastPolicy returns the version that was put in force last, if any.
func (m *Memory) LastPolicy(ctx context.Context) (policyadmin.KeptVersion, bool, error) {
	return m.one(ctx, &m.last)
}

func (m *Memory) one(ctx context.Context, which *string) (policyadmin.KeptVersion, bool, error) {
	m.Lock()
	version := *which
	m.Unlock()
	if version == "" {
		return policyadmin.KeptVersion{}, false, nil
	}
	v, err := m.PolicyVersion(ctx, version)
	return v, true, err
}

// ResetPolicy makes the policy directory effective again.
func (m *Memory) ResetPolicy(_ context.Context, reset event.Draft) error {
	return m.update([]event.Draft{reset}, func(time.Time) { m.activated, m.last = "", "" })
}

// SnapshotInputs returns the inputs of the set with a snapshot digest.
func (m *Memory) SnapshotInputs(_ context.Context, digest string) ([]byte, error) {
	m.Lock()
	defer m.Unlock()
	s, ok := m.sets[digest]
	if !ok {
		return nil, reason.Errorf(reason.NotFound, "no policy snapshot has the digest %s", digest)
	}
	return s.Inputs, nil
}

// Ceilings lists the ceilings set by commands, by name.
func (m *Memory) Ceilings(context.Context) ([]policyadmin.Ceiling, error) {
	m.Lock()
	defer m.Unlock()
	return slices.SortedFunc(maps.Values(m.ceilings), func(a, b policyadmin.Ceiling) int { return strings.Compare(a.Name, b.Name) }), nil
}

// PutCeiling stores a ceiling and replaces one with the same name.
func (m *Memory) PutCeiling(_ context.Context, c policyadmin.Ceiling, set event.Draft) (policyadmin.Ceiling, error) {
	err := m.update([]event.Draft{set}, func(now time.Time) {
		c.At = now
		m.ceilings[c.Name] = c
	})
	return c, err
}

// Pins lists the stored tool definitions by name.
func (m *Memory) Pins(context.Context) ([]policyadmin.Pin, error) {
	m.Lock()
	defer m.Unlock()
	var list []policyadmin.Pin
	for _, p := range m.pins {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b policyadmin.Pin) int { return strings.Compare(a.Tool, b.Tool) })
	return list, nil
}

// PutPins stores pins, and replaces existing pins of the same tools.
func (m *Memory) PutPins(_ context.Context, pins []policyadmin.Pin, events ...event.Draft) error {
	return m.update(events, func(now time.Time) {
		for _, p := range pins {
			p.At = now
			m.pins[p.Tool] = p
		}
	})
}

// ProposalOf finds the proposal of a decision.
func (m *Memory) ProposalOf(_ context.Context, decisionID string, before time.Time) (string, bool, error) {
	for _, e := range m.All() {
		if e.Code != event.Decided || e.At.Before(before) {
			continue
		}
		if is, err := record.Decides(e.Payload, decisionID); is || err != nil {
			return e.Subject, is, err
		}
	}
	return "", false, nil
}
