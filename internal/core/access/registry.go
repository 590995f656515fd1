package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// MemberStore is the source of a Registry's members.
type MemberStore interface {
	Members(ctx context.Context) ([]Member, error)
}

// Registry keeps all members in memory, so that no decision waits for the disk. It is safe for
// concurrent use, and returns copies.
type Registry struct {
	store MemberStore
	roles []Role

	// changing keeps changes and their callbacks in order; mu guards the maps.
	changing sync.Mutex
	mu       sync.RWMutex
	members  map[Principal]Member
	// reachable are the members with a device that is not revoked. Nil means unknown: every member
	// then counts as having one, so that missing data never leaves a single approver.
	reachable map[Principal]bool
	watchers  map[int]func()
	next      int
}

// NewRegistry loads the members from store. declared lists the roles that the operator added to
// the built-in ones.
func NewRegistry(ctx context.Context, store MemberStore, declared []Role) (*Registry, error) {
	r := &Registry{
		store: store, roles: slices.Clone(BuiltinRoles),
		members: map[Principal]Member{}, watchers: map[int]func(){},
	}
	for _, d := range declared {
		role, err := ParseRole(string(d))
		if err != nil {
			return nil, fmt.Errorf("declaring roles: %w", err)
		}
		if !slices.Contains(r.roles, role) {
			r.roles = append(r.roles, role)
		}
	}
	return r, r.Load(ctx)
}

// Load replaces the members by the stored ones and notifies the watchers.
func (r *Registry) Load(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	list, err := r.store.Members(ctx)
	if err != nil {
		return fmt.Errorf("loading members: %w", err)
	}
	members := make(map[Principal]Member, len(list))
	for _, m := range list {
		members[m.Principal] = m.clone()
	}
	r.mu.Lock()
	r.members = members
	r.mu.Unlock()
	r.tell()
	return nil
}

// Put adds or replaces one member after it is stored, and notifies the watchers.
func (r *Registry) Put(m Member) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	r.members[m.Principal] = m.clone()
	r.mu.Unlock()
	r.tell()
}

// Reach sets the members with a device that is not revoked, and notifies the watchers of a change.
func (r *Registry) Reach(reachable map[Principal]bool) {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	same := r.reachable != nil && maps.Equal(r.reachable, reachable)
	r.reachable = maps.Clone(reachable)
	r.mu.Unlock()
	if !same {
		r.tell()
	}
}

// Get returns a member, disabled ones included.
func (r *Registry) Get(p Principal) (Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[p]
	return r.copied(m), ok
}

// copied returns a copy of m for callers, with NoDevice set. The caller holds mu.
func (r *Registry) copied(m Member) Member {
	m = m.clone()
	m.NoDevice = r.reachable != nil && !r.reachable[m.Principal]
	return m
}

// List returns all members, disabled ones included, ordered by principal.
func (r *Registry) List() []Member {
	r.mu.RLock()
	list := make([]Member, 0, len(r.members))
	for _, m := range r.members {
		list = append(list, r.copied(m))
	}
	r.mu.RUnlock()
	slices.SortFunc(list, func(a, b Member) int { return strings.Compare(a.Principal.String(), b.Principal.String()) })
	return list
}

// Roles returns the built-in roles and then the declared ones.
func (r *Registry) Roles() []Role { return slices.Clone(r.roles) }

// HasRole reports whether the role is built in or declared.
func (r *Registry) HasRole(role Role) bool { return slices.Contains(r.roles, role) }

// Active returns a member if it may act now: it and its owner are known and not disabled, and
// the owner has consented. An agent without an owner may not act. If only the consent is
// missing, Active returns the member, with AwaitsConsent set, and false.
func (r *Registry) Active(p Principal) (Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[p]
	if !ok || m.Disabled {
		return Member{}, false
	}
	if m.Owner.IsZero() {
		return r.copied(m), m.Principal.Kind != KindAgent
	}
	owner, ok := r.members[m.Owner]
	if !ok || owner.Disabled {
		return Member{}, false
	}
	return r.copied(m), !m.AwaitsConsent
}

// Subscribe calls fn after every change, one call at a time and in order,
// until cancel is called. fn may read the registry but MUST NOT change it.
func (r *Registry) Subscribe(fn func()) (cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.next
	r.next++
	r.watchers[id] = fn
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, id)
	}
}

// tell calls the watchers without holding mu, so that they can read the change.
func (r *Registry) tell() {
	r.mu.RLock()
	ids := make([]int, 0, len(r.watchers))
	for id := range r.watchers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	calls := make([]func(), 0, len(ids))
	for _, id := range ids {
		calls = append(calls, r.watchers[id])
	}
	r.mu.RUnlock()
	for _, fn := range calls {
		fn()
	}
}

func (m Member) clone() Member {
	m.Roles = slices.Clone(m.Roles)
	return m
}
