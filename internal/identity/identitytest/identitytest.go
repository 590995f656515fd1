// Package identitytest has an identity.Store in memory for tests of other packages, and the
// test suite of identity.Store.
package identitytest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// Store is an identity.Store in memory that records the events.
type Store struct {
	mu      sync.Mutex
	members map[access.Principal]access.Member
	devices map[string]identity.Device
	acts    provenance.History
	bound   []identity.Binding
	events  []event.Draft
	next    error
}

var _ identity.Store = (*Store)(nil)

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{members: map[access.Principal]access.Member{}, devices: map[string]identity.Device{}}
}

// FailNext makes the next Apply fail with err.
func (s *Store) FailNext(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = err
}

// Events returns the journaled events.
func (s *Store) Events() []event.Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Members implements identity.Store.
func (s *Store) Members(context.Context) ([]access.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []access.Member
	for _, m := range s.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b access.Member) int { return strings.Compare(a.Principal.String(), b.Principal.String()) })
	return list, nil
}

// Devices implements identity.Store.
func (s *Store) Devices(context.Context) ([]identity.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []identity.Device
	for _, d := range s.devices {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b identity.Device) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// Bindings implements identity.Store.
func (s *Store) Bindings(context.Context) ([]identity.Binding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bound), nil
}

// Provenance implements identity.Store.
func (s *Store) Provenance(context.Context) (provenance.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acts), nil
}

// Apply implements identity.Store.
func (s *Store) Apply(_ context.Context, c identity.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.next; err != nil {
		s.next = nil
		return err
	}
	if err := s.check(c); err != nil {
		return err
	}
	for _, m := range slices.Concat(c.NewMembers, c.Members) {
		s.members[m.Principal] = m
	}
	for _, d := range slices.Concat(c.NewDevices, c.Devices) {
		s.devices[d.ID] = d
	}
	for _, id := range c.Forgotten {
		delete(s.devices, id)
	}
	s.bound = append(s.bound, c.NewBindings...)
	s.acts = append(s.acts, c.Acts...)
	s.events = append(s.events, c.Events...)
	return nil
}

func (s *Store) check(c identity.Change) error {
	for _, m := range c.NewMembers {
		if _, ok := s.members[m.Principal]; ok {
			return reason.Errorf(reason.AlreadyExists, "the member %s already exists", m.Principal)
		}
	}
	for _, m := range c.Members {
		was, ok := s.members[m.Principal]
		if !ok {
			return reason.Errorf(reason.NotFound, "member %s not found", m.Principal)
		}
		if was.Removed() {
			return identity.ErrConflict
		}
	}
	for _, b := range c.NewBindings {
		if slices.ContainsFunc(s.bound, func(was identity.Binding) bool {
			return was.Member == b.Member || was.Issuer == b.Issuer && was.Subject == b.Subject
		}) {
			return reason.Errorf(reason.AlreadyExists, "%s or %s is bound already", b.Subject, b.Member)
		}
	}
	for _, id := range c.Forgotten {
		if d, ok := s.devices[id]; !ok || !d.Session() {
			return reason.Errorf(reason.NotFound, "session %s not found", id)
		}
	}
	for _, d := range c.NewDevices {
		if _, ok := s.devices[d.ID]; ok {
			return reason.Errorf(reason.AlreadyExists, "the device %s already exists", d.ID)
		}
	}
	for _, d := range c.Devices {
		was, ok := s.devices[d.ID]
		if !ok {
			return reason.Errorf(reason.NotFound, "device %s not found", d.ID)
		}
		if was.Version != d.Version-1 || was.Revoked() {
			return identity.ErrConflict
		}
	}
	return nil
}

// RunStore is the test suite of every store. events returns the number of journaled events.
func RunStore(t *testing.T, store identity.Store, events func() int) {
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	alice := access.Member{Principal: access.User("alice"), Roles: []access.Role{access.RoleOwner, "security"}, CreatedAt: at}
	bot := access.Member{Principal: access.Agent("bot"), Owner: alice.Principal, Roles: []access.Role{access.RoleAgent}, AwaitsConsent: true, CreatedAt: at}
	dev := identity.Device{
		ID: "01JNA3Q0G0DEV1CE0000000001", Principal: alice.Principal, Name: "laptop", Local: true, Serial: "ab",
		KeySHA256: "sha256:00", CreatedAt: at, NotAfter: at.Add(time.Hour), Version: 1,
		Keys: []identity.Key{{SHA256: "sha256:00", NotAfter: at.Add(time.Hour)}},
	}
	other := dev
	other.ID, other.Principal, other.Local = "01JNA3Q0G0DEV1CE0000000002", bot.Principal, false
	draft := event.Draft{Code: event.MemberAdded, Actor: "service:palyrad", Payload: []byte("{}")}

	apply := func(what string, c identity.Change, check func(error) bool) {
		t.Helper()
		before := events()
		c.Events = []event.Draft{draft}
		err := store.Apply(ctx, c)
		if !check(err) {
			t.Errorf("%s: %v", what, err)
		}
		if grown := events() > before; grown != (err == nil) {
			t.Errorf("%s: event written %v, error %v", what, grown, err)
		}
	}
	fine := func(err error) bool { return err == nil }
	is := func(code reason.Code) func(error) bool { return func(err error) bool { return reason.Of(err) == code } }
	conflict := func(err error) bool { return errors.Is(err, identity.ErrConflict) }

	want(t, store, nil, nil)
	apply("add", identity.Change{NewMembers: []access.Member{alice, bot}, NewDevices: []identity.Device{other, dev}}, fine)
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})

	apply("add a member again", identity.Change{NewMembers: []access.Member{alice}}, is(reason.AlreadyExists))
	carol := alice
	carol.Principal = access.User("carol")
	apply("add a device again", identity.Change{NewMembers: []access.Member{carol}, NewDevices: []identity.Device{dev}}, is(reason.AlreadyExists))
	apply("change nobody", identity.Change{Members: []access.Member{carol}}, is(reason.NotFound))
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})

	bot.Disabled, bot.AwaitsConsent, bot.Roles = true, false, []access.Role{"security"}
	dev.Version, dev.Serial, dev.NotAfter, dev.Name = 2, "cd", at.Add(2*time.Hour), "new laptop"
	apply("change", identity.Change{Members: []access.Member{bot}, Devices: []identity.Device{dev}}, fine)
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})
	apply("change with the version of before", identity.Change{Devices: []identity.Device{dev}}, conflict)

	dev.Version, dev.OldKeyAt = 3, at.Add(time.Minute)
	dev.Keys = []identity.Key{{SHA256: "sha256:00", NotAfter: at.Add(time.Hour), UsedAt: at, EndsAt: at.Add(time.Minute)}, {SHA256: "sha256:01", NotAfter: at.Add(2 * time.Hour), UsedAt: at}}
	apply("replace its key", identity.Change{Devices: []identity.Device{dev}}, fine)
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})

	dev.Version, dev.RevokedAt, dev.RevokedBy, dev.RevokeReason = 4, at.Add(time.Minute), alice.Principal, "lost"
	apply("revoke", identity.Change{Devices: []identity.Device{dev}}, fine)
	bot.Owner, bot.AwaitsConsent, bot.RemovedAt = access.User("dave"), true, at.Add(time.Hour)
	apply("remove", identity.Change{Members: []access.Member{bot}}, fine)
	alive := bot
	alive.Disabled, alive.RemovedAt = false, time.Time{}
	apply("take a removal back", identity.Change{Members: []access.Member{alive}}, conflict)
	apply("add the removed again", identity.Change{NewMembers: []access.Member{alive}}, is(reason.AlreadyExists))
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})

	back := dev
	back.Version, back.RevokedAt = 5, time.Time{}
	apply("take a revocation back", identity.Change{Devices: []identity.Device{back}}, conflict)
	back.ID = "01JNA3Q0G0DEV1CE0000000003"
	apply("change no device", identity.Change{Devices: []identity.Device{back}}, is(reason.NotFound))
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})

	session := identity.Device{ID: "01JNA3Q0G0DEV1CE0000000004", Principal: alice.Principal, Name: "login", KeySHA256: "sha256:01", CreatedAt: at, NotAfter: at.Add(time.Hour), LoginUntil: at.Add(time.Hour), Version: 1}
	bound := identity.Binding{Issuer: "https://id.example", Subject: "1", Member: alice.Principal, MadeAt: at}
	apply("log in", identity.Change{NewDevices: []identity.Device{session}, NewBindings: []identity.Binding{bound}}, fine)
	second := bound
	second.Subject = "2"
	apply("bind a member to another person", identity.Change{NewBindings: []identity.Binding{second}}, is(reason.AlreadyExists))
	second = bound
	second.Member = bot.Principal
	apply("bind a person to another member", identity.Change{NewBindings: []identity.Binding{second}}, is(reason.AlreadyExists))
	session.LoginUntil, session.Version = at.Add(time.Minute), 2
	apply("log out", identity.Change{Devices: []identity.Device{session}}, fine)
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other, session})
	apply("forget a session", identity.Change{Forgotten: []string{session.ID}}, fine)
	apply("forget it again", identity.Change{Forgotten: []string{session.ID}}, is(reason.NotFound))
	apply("forget a device", identity.Change{Forgotten: []string{other.ID}}, is(reason.NotFound))
	want(t, store, []access.Member{bot, alice}, []identity.Device{dev, other})
	if diff := cmp.Diff([]identity.Binding{bound}, must.Get(store.Bindings(ctx))(t)); diff != "" {
		t.Errorf("bindings:\n%s", diff)
	}
}

func want(t *testing.T, store identity.Store, members []access.Member, devices []identity.Device) {
	t.Helper()
	m := must.Get(store.Members(t.Context()))(t)
	d := must.Get(store.Devices(t.Context()))(t)
	if diff := cmp.Diff(members, m, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("members:\n%s", diff)
	}
	if diff := cmp.Diff(devices, d, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("devices:\n%s", diff)
	}
}
