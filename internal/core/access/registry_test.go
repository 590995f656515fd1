package access_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
)

type list struct {
	members []access.Member
	err     error
}

func (l *list) Members(context.Context) ([]access.Member, error) { return l.members, l.err }

func registry(t *testing.T, members ...access.Member) (*access.Registry, *list) {
	t.Helper()
	l := &list{members: members}
	r := must.Get(access.NewRegistry(t.Context(), l, []access.Role{"security", "security", access.RoleOwner}))(t)
	return r, l
}

func member(p, owner access.Principal, roles ...access.Role) access.Member {
	return access.Member{Principal: p, Owner: owner, Roles: roles}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	alice := member(access.User("alice"), access.Principal{}, access.RoleOwner)
	r, l := registry(t, alice, member(access.Agent("bot"), access.User("alice"), access.RoleAgent))
	if want := append(slices.Clone(access.BuiltinRoles), "security"); !slices.Equal(r.Roles(), want) || !r.HasRole("security") || r.HasRole("root") {
		t.Errorf("roles %v", r.Roles())
	}
	if m := r.List(); len(m) != 2 || m[0].Principal != access.Agent("bot") {
		t.Errorf("list %v", m)
	}
	// The registry returns copies.
	m, _ := r.Get(alice.Principal)
	m.Roles[0] = access.RoleAgent
	r.Roles()[0] = "changed"
	if m, ok := r.Get(alice.Principal); !ok || m.Roles[0] != access.RoleOwner || r.Roles()[0] != access.RoleOwner {
		t.Error("a caller changed the registry")
	}
	l.err = errors.New("disk")
	if err := r.Load(t.Context()); err == nil || len(r.List()) != 2 {
		t.Errorf("a failed load: %v, %d members", err, len(r.List()))
	}
	l.members, l.err = nil, nil
	if err := r.Load(t.Context()); err != nil || len(r.List()) != 0 {
		t.Errorf("load: %v, %d members", err, len(r.List()))
	}
	if _, err := access.NewRegistry(t.Context(), l, []access.Role{"Not A Role"}); err == nil {
		t.Error("a malformed role was declared")
	}
}

func TestActive(t *testing.T) {
	t.Parallel()
	owner := access.User("alice")
	for name, c := range map[string]struct {
		members []access.Member
		p       access.Principal
		want    bool
	}{
		"user":            {[]access.Member{member(owner, access.Principal{})}, owner, true},
		"agent":           {[]access.Member{member(owner, access.Principal{}), member(access.Agent("b"), owner)}, access.Agent("b"), true},
		"unknown":         {nil, owner, false},
		"nobody":          {nil, access.Principal{}, false},
		"disabled":        {[]access.Member{{Principal: owner, Disabled: true}}, owner, false},
		"disabled owner":  {[]access.Member{{Principal: owner, Disabled: true}, member(access.Agent("b"), owner)}, access.Agent("b"), false},
		"owner gone":      {[]access.Member{member(access.Agent("b"), owner)}, access.Agent("b"), false},
		"ownerless agent": {[]access.Member{member(access.Agent("b"), access.Principal{})}, access.Agent("b"), false},
	} {
		r, _ := registry(t, c.members...)
		if _, ok := r.Active(c.p); ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	r, _ := registry(t)
	var seen []int
	cancel := r.Subscribe(func() { seen = append(seen, len(r.List())) })
	r.Put(member(access.User("a"), access.Principal{}))
	r.Put(member(access.User("b"), access.Principal{}))
	must.Do(t, r.Load(t.Context()))
	cancel()
	r.Put(member(access.User("c"), access.Principal{}))
	if !slices.Equal(seen, []int{1, 2, 0}) {
		t.Errorf("saw %v", seen)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r, _ := registry(t)
	calls := 0 // the registry serializes the calls
	r.Subscribe(func() { calls++ })
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			r.Put(member(access.User(string(rune('a'+i))), access.Principal{}))
			r.List()
			r.Active(access.User("a"))
		})
	}
	group.Wait()
	if len(r.List()) != 8 || calls != 8 {
		t.Errorf("%d members, %d calls", len(r.List()), calls)
	}
}
