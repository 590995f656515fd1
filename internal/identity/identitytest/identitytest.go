// Package identitytest has an embedded store whose writes can fail, and the test suite of
// identity.Store.
package identitytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// Store is an embedded store whose writes can fail.
type Store struct {
	sqlite.IdentityStore
	*sqlitetest.Faulty
}

// NewStore returns an empty store.
func NewStore(t testing.TB) *Store {
	t.Helper()
	f := sqlitetest.NewFaulty(t)
	return &Store{sqlite.NewIdentity(f.DB), f}
}

// Apply implements identity.Store.
func (s *Store) Apply(ctx context.Context, c identity.Change) error {
	return s.Write(func() error { return s.IdentityStore.Apply(ctx, c) })
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
