// Package registrytest provides an in-memory registry.Store, the conformance suite of such
// stores, and skill packages for tests.
package registrytest

import (
	"context"
	"slices"
	"strings"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal/journaltest"
	"palyra/internal/exec/skill/registry"
)

// Memory is an in-memory registry.Store. Its writes are atomic, as the interface requires.
type Memory struct {
	journaltest.Memory
	// Kept are the rows. Tests modify them to simulate an attacker with write access to the
	// store's file.
	Kept registry.Kept
	// Forgotten are the skills whose storage was removed.
	Forgotten []string
	// Fail, unless nil, is called before each write and can return an error for it.
	Fail func(registry.Change) error
}

var _ registry.Store = (*Memory)(nil)

// Skills implements registry.Store.
func (m *Memory) Skills(context.Context) (registry.Kept, error) {
	m.Lock()
	defer m.Unlock()
	kept := registry.Kept{Versions: slices.Clone(m.Kept.Versions), Publishers: slices.Clone(m.Kept.Publishers)}
	slices.SortFunc(kept.Versions, func(a, b registry.Installed) int { return strings.Compare(a.Name(), b.Name()) })
	slices.SortFunc(kept.Publishers, func(a, b registry.Publisher) int { return strings.Compare(a.Name, b.Name) })
	return kept, nil
}

// ChangeSkills implements registry.Store.
func (m *Memory) ChangeSkills(_ context.Context, c registry.Change) error {
	m.Lock()
	defer m.Unlock()
	if m.Fail != nil {
		if err := m.Fail(c); err != nil {
			return err
		}
	}
	if _, err := m.Write(c.Events, nil); err != nil {
		return err
	}
	for _, i := range slices.Concat(c.Put, c.Drop) {
		m.Kept.Versions = slices.DeleteFunc(m.Kept.Versions, func(o registry.Installed) bool { return o.Name() == i.Name() })
	}
	for _, i := range c.Put {
		i.Manifest, i.Problem = nil, nil
		m.Kept.Versions = append(m.Kept.Versions, i)
	}
	for _, p := range c.Publishers {
		p.Problem = nil
		m.Kept.Publishers = append(slices.DeleteFunc(m.Kept.Publishers, func(o registry.Publisher) bool { return o.Name == p.Name }), p)
	}
	m.Forgotten = append(m.Forgotten, c.Forget...)
	return nil
}

// LastSkillEvent implements registry.Store.
func (m *Memory) LastSkillEvent(_ context.Context, subject string, codes ...event.Code) (event.Draft, bool, error) {
	for _, e := range slices.Backward(m.All()) {
		if e.Subject == subject && slices.Contains(codes, e.Code) {
			return event.Draft{Code: e.Code, Actor: e.Actor, Subject: e.Subject, Payload: e.Payload}, true, nil
		}
	}
	return event.Draft{}, false, nil
}
