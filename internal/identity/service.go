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
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// ErrConflict means that another request changed a member or device meanwhile.
var ErrConflict = errors.New("it was changed meanwhile")

// Daemon returns the principal of palyrad itself. It is the actor of commands on palyrad's host,
// such as `palyrad operator add`.
func Daemon() access.Principal { return access.Principal{Kind: access.KindService, Name: "palyrad"} }

// Config holds the dependencies of a Service. All fields except Now and Rand are required.
type Config struct {
	Authority *ca.Authority
	Store     Store
	Registry  *access.Registry
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Now is the clock; nil means time.Now. Rand generates device ids; nil means crypto/rand.
	Now  func() time.Time
	Rand io.Reader
}

// Service makes all changes of members and devices. It is safe for concurrent use.
type Service struct {
	authority *ca.Authority
	store     Store
	registry  *access.Registry
	guard     change.Guard
	now       func() time.Time
	rand      io.Reader

	// localDir is the bundle of the local operator; nil before Start.
	localDir atomic.Pointer[string]

	// changing serialises changes; mu guards the fields below.
	changing sync.Mutex
	mu       sync.RWMutex
	devices  map[string]Device
	verified map[[32]byte]verifiedLeaf
	history  provenance.History
	bindings map[person]access.Principal
	// restoredAt is the time at which the gateway was restored from a backup; zero for never.
	restoredAt time.Time
	// lastUse is the time of each device's last use since the start.
	lastUse map[string]time.Time
	// renewals counts the renewals of the last hour by device; s.changing guards them.
	renewals map[string]renewals
	// onKeyEnd is called for keys that ended; see OnKeyEnd.
	onKeyEnd []func(deviceID, keySHA256 string, why *reason.Error)
	// keysChanged wakes RunKeys.
	keysChanged chan struct{}
	watchers    []func(Device, *reason.Error)
	// onCut is called for members with reduced permissions; see OnCut.
	onCut []func(access.Principal, *reason.Error)
	// onOwner is called for an agent whose ownership ends; see OnOwner.
	onOwner func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)
	// onChange notifies policy of a change of members; it may be nil.
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
		authority: c.Authority, store: c.Store, registry: c.Registry, guard: c.Guard, now: c.Now, rand: c.Rand,
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
	return s, nil
}

// Device returns a device, including a revoked one.
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

// OnChange registers the function that passes the members to policy. It runs after a change of
// a member and before the member's open work ends, so that no work starts in between with the
// previous state. Register before serving.
func (s *Service) OnChange(fn func(ctx context.Context, actor access.Principal) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onChange = fn
}

// OnOwner registers the function that is called for an agent that gets another owner or is
// removed. The events that it returns are committed with that change. Register before serving.
func (s *Service) OnOwner(fn func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onOwner = fn
}

// ownershipEnds returns the events of OnOwner for a change.
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

// OnEnd registers a function that is called for every device that was revoked, or whose member
// was disabled or lost permissions, so that the device's live streams can end. The error
// contains the reason. Register before serving.
func (s *Service) OnEnd(fn func(Device, *reason.Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, fn)
}

// OnCut registers a function that is called for every member that was disabled or removed, or
// lost permissions, so that work authorized by credentials other than its devices can end.
// Register before serving.
func (s *Service) OnCut(fn func(access.Principal, *reason.Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onCut = append(s.onCut, fn)
}

// apply makes a change durable and then visible. The caller holds s.changing. A started change
// completes even if the caller disconnects: otherwise the memory could differ from the store.
//
// Only apply adds the effect of a change on members to their history, so that every change is
// recorded. Only an owner's consent enables an agent that waits for it.
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

// reach passes the members with a device to the registry.
func (s *Service) reach() {
	s.mu.RLock()
	bound := slices.Collect(maps.Values(s.bindings))
	s.mu.RUnlock()
	s.registry.Reach(Reachable(s.Devices(), bound))
}

// Reachable returns the members with a device. A member bound to a login counts as having one,
// because otherwise every ended session would change the set of approvers.
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

// live returns a device that is known and not revoked, and otherwise an error with the reason
// Unauthenticated.
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

// instant returns the current time in the precision of stores: UTC with microseconds.
func (s *Service) instant() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
