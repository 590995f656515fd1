package policyadmin_test

import (
	"sync/atomic"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// growing gets a second owner during the test.
type growing struct {
	oneOwner
	grown atomic.Bool
}

func (g *growing) List() []access.Member {
	list := g.oneOwner.List()
	if g.grown.Load() {
		list = append(list, access.Member{Principal: access.User("bob"), Roles: []access.Role{access.RoleOwner}})
	}
	return list
}

// TestRebuildWithoutChanges: if nothing changed, the running set stays in force and a simulation reuses
// the previous set. A new member results in new sets.
func TestRebuildWithoutChanges(t *testing.T) {
	t.Parallel()
	members, engine, cfg, log := &growing{}, &policy.Engine{}, config.Default(), &gatewaytest.Log{}
	cfg.Policy.Dir = t.TempDir()
	p := policyadmin.New(policyadmin.Config{
		Guard:    change.Unguarded,
		Settings: cfg, Store: sqlite.NewPolicies(sqlitetest.Open(t)), Journal: noJournal{}, Engine: engine, Members: members, Tools: builtinTools{}, Swapped: func() {}, Log: log.Logger(),
	})
	must.Do(t, p.Loader.Load(t.Context()))
	simulate := func(text string) *policy.Set {
		return must.Get(p.Drafts.Build(t.Context(), []policy.Source{{Name: "own.cedar", Text: text}}, true))(t)
	}
	const forbids = `@id("none") @reason("not now") forbid(principal, action, resource);`
	candidate := simulate(forbids)
	if simulate(forbids) != candidate {
		t.Error("a second simulation of the same policies loaded them again")
	}
	first := engine.Current()
	must.Do(t, p.Active.Rebuild(t.Context(), journal.Daemon))
	if engine.Current() != first {
		t.Error("the same was put in force anew")
	}
	members.grown.Store(true)
	must.Do(t, p.Active.Rebuild(t.Context(), journal.Daemon))
	if now := engine.Current(); now == first || now.SnapshotDigest() == first.SnapshotDigest() {
		t.Error("a new member changed nothing")
	}
	if grown := simulate(forbids); grown == candidate || grown.SnapshotDigest() == candidate.SnapshotDigest() {
		t.Error("a simulation does not know the new member")
	}
	if other := simulate(""); other.Version() == candidate.Version() {
		t.Error("a simulation used the policies of the one before")
	}
}
