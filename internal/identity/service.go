package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// ErrConflict means that a member or device was changed by somebody else meanwhile.
var ErrConflict = errors.New("it was changed meanwhile")

// Daemon returns the principal of palyrad itself, which acts when a command on
// its host does: `palyrad operator add`.
func Daemon() access.Principal { return access.Principal{Kind: access.KindService, Name: "palyrad"} }

// Config is what a Service is made of. All members but Now and Rand are
// required.
type Config struct {
	Authority *ca.Authority
	Store     Store
	Registry  *access.Registry
	// Now is the clock; nil means time.Now. Rand gives device ids; nil means
	// crypto/rand.
	Now  func() time.Time
	Rand io.Reader
}

// Service is the one place where members and devices change. It is safe for
// concurrent use.
type Service struct {
	authority *ca.Authority
	store     Store
	registry  *access.Registry
	now       func() time.Time
	rand      io.Reader

	// localDir is the bundle of the local operator; nil before Start.
	localDir atomic.Pointer[string]

	// changing makes one change at a time; mu guards what follows.
	changing sync.Mutex
	mu       sync.RWMutex
	devices  map[string]Device
	verified map[[32]byte]verifiedLeaf
	history  provenance.History
	bindings map[person]access.Principal
	// restoredAt is when the gateway was restored from a backup; zero for never.
	restoredAt time.Time
	// lastUse is when devices were last used, since the start.
	lastUse map[string]time.Time
	// renewals are those of the last hour, by device; s.changing guards them.
	renewals map[string]renewals
	// onKeyEnd is told of keys that ended; see OnKeyEnd.
	onKeyEnd []func(deviceID, keySHA256 string, why *reason.Error)
	// keysChanged wakes RunKeys.
	keysChanged chan struct{}
	watchers    []func(Device, *reason.Error)
	// onCut is told of members that may do less; see OnCut.
	onCut []func(access.Principal, *reason.Error)
	// onOwner is called for an agent whose ownership ends; see OnOwner.
	onOwner func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)
	// onChange lets policy know of a change of members; nil for nobody.
	onChange func(ctx context.Context, actor access.Principal) error
}

// New loads the devices.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Authority == nil || c.Store == nil || c.Registry == nil {
		return nil, errors.New("making identity service: authority, store and registry are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	s := &Service{
		authority: c.Authority, store: c.Store, registry: c.Registry, now: c.Now, rand: c.Rand,
		verified: map[[32]byte]verifiedLeaf{}, lastUse: map[string]time.Time{}, renewals: map[string]renewals{}, keysChanged: make(chan struct{}, 1),
	}
	list, err := c.Store.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading devices: %w", err)
	}
	s.devices = make(map[string]Device, len(list))
	for _, d := range list {
		s.devices[d.ID] = d
	}
	if s.bindings, err = bindings(ctx, c.Store); err != nil {
		return nil, err
	}
	s.reach()
	if s.history, err = c.Store.Provenance(ctx); err != nil {
		return nil, fmt.Errorf("loading the history of members: %w", err)
	}
	return s, s.confirmOlder(ctx)
}

// Device returns a device, revoked ones included.
func (s *Service) Device(id string) (Device, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.devices[id]
	return d, ok
}

// Devices returns all devices, revoked ones included, ordered by ID.
func (s *Service) Devices() []Device {
	s.mu.RLock()
	list := make([]Device, 0, len(s.devices))
	for _, d := range s.devices {
		list = append(list, d)
	}
	s.mu.RUnlock()
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// OnChange registers the call that lets policy know the members as they are, after a
// change of one and before what the member has open is ended, so that nothing begins
// in between by what it was. Register before serving.
func (s *Service) OnChange(fn func(ctx context.Context, actor access.Principal) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = fn
}

// OnOwner registers the call for an agent that gets another owner or is removed. The
// events that it returns are committed with that change. Register before serving.
func (s *Service) OnOwner(fn func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onOwner = fn
}

// ownershipEnds are the events of OnOwner for a change.
func (s *Service) ownershipEnds(ctx context.Context, actor access.Principal, c Change) (list []event.Draft, err error) {
	s.mu.RLock()
	fn := s.onOwner
	s.mu.RUnlock()
	for _, m := range c.Members {
		was, _ := s.registry.Get(m.Principal)
		if fn == nil || m.Principal.Kind != access.KindAgent || m.Owner == was.Owner && m.Removed() == was.Removed() {
			continue
		}
		events, err := fn(ctx, actor, m.Principal)
		if err != nil {
			return nil, fmt.Errorf("ending the secrets of %s: %w", m.Principal, err)
		}
		list = append(list, events...)
	}
	return list, nil
}

// OnEnd registers a call for every device that was revoked, or whose member was
// disabled or may do less than before, so that its live streams can be ended; the
// error says why. Register before serving.
func (s *Service) OnEnd(fn func(Device, *reason.Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, fn)
}

// OnCut registers a call for every member that was disabled or removed, or may do
// less than before, so that what was let in by other credentials than its devices can
// be ended. Register before serving.
func (s *Service) OnCut(fn func(access.Principal, *reason.Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCut = append(s.onCut, fn)
}

// apply makes a change durable and then visible. The caller holds s.changing.
// Once begun it ends: a caller that hangs up must not leave memory behind the
// store.
//
// What a change does to members goes into their history here and nowhere else, so
// that no change is without it; and nothing but an owner's consent lets an agent
// through that waits for it.
func (s *Service) apply(ctx context.Context, actor access.Principal, c Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Acts = append(c.Acts, s.acts(actor, c)...)
	for i, d := range c.Events {
		if !d.Code.Attributed() {
			continue
		}
		by, err := d.By(access.DeviceOf(ctx))
		if err != nil {
			return err
		}
		c.Events[i] = by
	}
	s.settleConsent(actor, &c)
	if rehearsed(ctx, c) {
		return errRehearsed
	}
	ends, err := s.ownershipEnds(ctx, actor, c)
	if err != nil {
		return err
	}
	c.Events = append(slices.Clip(c.Events), ends...)
	if err := s.store.Apply(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	s.mu.Lock()
	for _, d := range slices.Concat(c.NewDevices, c.Devices) {
		s.devices[d.ID] = d
	}
	for _, id := range c.Forgotten {
		delete(s.devices, id)
	}
	for _, b := range c.NewBindings {
		s.bindings[person{b.Issuer, b.Subject}] = b.Member
	}
	s.history = append(slices.Clip(s.history), c.Acts...)
	s.mu.Unlock()
	s.reach()
	for _, m := range slices.Concat(c.NewMembers, c.Members) {
		s.registry.Put(m)
	}
	return nil
}

// reach tells the registry who has a device.
func (s *Service) reach() {
	s.mu.RLock()
	bound := slices.Collect(maps.Values(s.bindings))
	s.mu.RUnlock()
	s.registry.Reach(Reachable(s.Devices(), bound))
}

// Reachable are those who have a device. Who logs in can have one at any time: else who
// answers approvals would change with every session that ends.
func Reachable(devices []Device, bound []access.Principal) map[access.Principal]bool {
	reachable := map[access.Principal]bool{}
	for _, p := range bound {
		reachable[p] = true
	}
	for _, d := range devices {
		if !d.Revoked() {
			reachable[d.Principal] = true
		}
	}
	return reachable
}

// live returns a device that is known and not revoked, with the reason
// Unauthenticated otherwise.
func (s *Service) live(id string) (Device, error) {
	d, ok := s.Device(id)
	if !ok {
		return Device{}, reason.Errorf(reason.Unauthenticated, "device %s is not known", id)
	}
	if d.Revoked() {
		return Device{}, revoked("device %s was revoked at %s", id, d.RevokedAt.Format(time.RFC3339))
	}
	if d.Session() && !s.now().Before(d.LoginUntil) {
		return Device{}, loggedOut(d)
	}
	return d, nil
}

// newDevice returns a device with a fresh id and no certificate yet.
func (s *Service) newDevice(p access.Principal, name string) (Device, error) {
	now := s.instant()
	id, err := ulid.New(ulid.Timestamp(now), s.rand)
	if err != nil {
		return Device{}, fmt.Errorf("making a device id: %w", err)
	}
	return Device{ID: id.String(), Principal: p, Name: name, CreatedAt: now, Version: 1}, nil
}

func (d *Device) holds(c ca.Issued, now time.Time) {
	d.Serial, d.KeySHA256, d.NotAfter = c.Serial, c.KeySHA256, c.NotAfter
	d.Keys = certified(d.Keys, c, now)
}

// instant is now as stores keep it: UTC with microseconds.
func (s *Service) instant() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
