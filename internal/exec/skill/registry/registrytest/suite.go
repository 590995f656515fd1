// Package registrytest provides the conformance suite of registry.Store, and skill packages for
// tests.
package registrytest

import (
	"reflect"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill/registry"
)

// RunStore is the conformance suite of registry.Store.
func RunStore(t *testing.T, newStore func(t *testing.T) registry.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, registry.Store)
	}{
		{"rows are kept as they are", rows},
		{"a row replaces that of its name", replaced},
		{"a change is all or nothing", allOrNothing},
		{"the newest event of a subject", newest},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore(t)) })
	}
}

func aVersion(version string) registry.Installed {
	return registry.Installed{
		Skill: "notes", Version: version, Publisher: "example.org", KeyID: "SHA256:x", Digest: "sha256:" + version, Status: registry.Quarantined, Why: "odd", Current: true,
		InstalledBy: access.User("alice"), InstalledAt: time.UnixMicro(1_000_001).UTC(), ChangedBy: access.Agent("coder"), ChangedAt: time.UnixMicro(2_000_002).UTC(),
	}
}

func aPublisher(name string) registry.Publisher {
	public := Public(Key(name))
	return registry.Publisher{Name: name, KeyID: dsse.KeyID(public), PublicKey: public, FirstUse: true, Distrusted: true, By: access.User("alice"), At: time.UnixMicro(3_000_003).UTC()}
}

func anEvent(t *testing.T, code event.Code, subject, says string) event.Draft {
	return must.Get(event.DraftOf(code, "user:alice", subject, map[string]string{"says": says}))(t)
}

func has(t *testing.T, s registry.Store, want registry.Kept) {
	t.Helper()
	if got := must.Get(s.Skills(t.Context()))(t); !reflect.DeepEqual(got, want) {
		t.Errorf("the store has %+v\nwant %+v", got, want)
	}
}

func rows(t *testing.T, s registry.Store) {
	has(t, s, registry.Kept{})
	one, two := aVersion("1.0.0"), aVersion("1.1.0")
	must.Do(t, s.ChangeSkills(t.Context(), registry.Change{
		Put: []registry.Installed{two, one}, Publishers: []registry.Publisher{aPublisher("example.org"), aPublisher("another.org")}, Events: []event.Draft{anEvent(t, event.SkillInstalled, "skill:notes", "1")},
	}))
	has(t, s, registry.Kept{Versions: []registry.Installed{one, two}, Publishers: []registry.Publisher{aPublisher("another.org"), aPublisher("example.org")}})
}

func replaced(t *testing.T, s registry.Store) {
	one, p := aVersion("1.0.0"), aPublisher("example.org")
	must.Do(t, s.ChangeSkills(t.Context(), registry.Change{Put: []registry.Installed{one, aVersion("0.9.0")}, Publishers: []registry.Publisher{p}}))
	one.Status, one.Why, one.Current, p.Distrusted, p.FirstUse = registry.Active, "", false, false, false
	must.Do(t, s.ChangeSkills(t.Context(), registry.Change{Put: []registry.Installed{one}, Drop: []registry.Installed{aVersion("0.9.0")}, Publishers: []registry.Publisher{p}, Forget: []string{"other"}}))
	has(t, s, registry.Kept{Versions: []registry.Installed{one}, Publishers: []registry.Publisher{p}})
}

func allOrNothing(t *testing.T, s registry.Store) {
	bad := event.Draft{Code: event.SkillInstalled, Actor: "user:alice", Subject: "skill:notes", Payload: []byte(`[]`)}
	err := s.ChangeSkills(t.Context(), registry.Change{Put: []registry.Installed{aVersion("1.0.0")}, Publishers: []registry.Publisher{aPublisher("example.org")}, Events: []event.Draft{anEvent(t, event.PublisherTrusted, "publisher:example.org", "1"), bad}})
	if err == nil {
		t.Error("an event without a payload was kept")
	}
	has(t, s, registry.Kept{})
	if _, found, err := s.LastSkillEvent(t.Context(), "publisher:example.org", event.PublisherTrusted); found || err != nil {
		t.Errorf("half of a change is there: %t, %v", found, err)
	}
}

func newest(t *testing.T, s registry.Store) {
	change := registry.Change{}
	for _, says := range []string{"1", "2", "3"} {
		change.Events = append(change.Events, anEvent(t, event.SkillChanged, "skill:notes", says), anEvent(t, event.SkillTampered, "skill:notes", "tampered"), anEvent(t, event.SkillChanged, "skill:others", "others"))
	}
	must.Do(t, s.ChangeSkills(t.Context(), change))
	e, found, err := s.LastSkillEvent(t.Context(), "skill:notes", event.SkillInstalled, event.SkillChanged)
	if err != nil || !found || e.Code != event.SkillChanged || string(e.Payload) != `{"says":"3"}` || e.Actor != "user:alice" || e.Subject != "skill:notes" {
		t.Errorf("the newest event is %+v, %t, %v", e, found, err)
	}
	if _, found, err := s.LastSkillEvent(t.Context(), "skill:notes", event.SkillRemoved); found || err != nil {
		t.Errorf("an event of another code was found: %t, %v", found, err)
	}
}
