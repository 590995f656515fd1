package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

// Directory has the current members, devices, logins and history. Every change goes through
// apply, which makes it durable before it is visible.
type Directory struct {
	store    Store
	registry *access.Registry
	now      func() time.Time
	rand     io.Reader

	// changing serialises changes; mu guards the fields below.
	changing sync.Mutex
	mu       sync.RWMutex
	devices  map[string]Device
	bindings map[person]access.Principal
	history  provenance.History
	// onOwner is called for an agent whose ownership ends; see OnOwner.
	onOwner func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)
	// onChange notifies policy of a change of members; it may be nil.
	onChange func(ctx context.Context, actor access.Principal) error
}

// newDirectory loads the devices, logins and history.
func newDirectory(ctx context.Context, c Config) (*Directory, error) {
	dir := &Directory{store: c.Store, registry: c.Registry, now: c.Now, rand: c.Rand, devices: map[string]Device{}, bindings: map[person]access.Principal{}}
	list, err := c.Store.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading devices: %w", err)
	}
	for _, d := range list {
		dir.devices[d.ID] = d
	}
	bound, err := c.Store.Bindings(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading who logs in: %w", err)
	}
	for _, b := range bound {
		dir.bindings[person{b.Issuer, b.Subject}] = b.Member
	}
	dir.reach()
	if dir.history, err = c.Store.Provenance(ctx); err != nil {
		return nil, fmt.Errorf("loading the history of members: %w", err)
	}
	return dir, nil
}

// Device returns a device, including a revoked one.
func (dir *Directory) Device(id string) (Device, bool) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	d, ok := dir.devices[id]
	return d, ok
}

// Devices returns all devices, revoked ones included, ordered by ID.
func (dir *Directory) Devices() []Device {
	dir.mu.RLock()
	list := make([]Device, 0, len(dir.devices))
	for _, d := range dir.devices {
		list = append(list, d)
	}
	dir.mu.RUnlock()
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// devicesOf returns the devices of a member that were not revoked.
func (dir *Directory) devicesOf(p access.Principal) []Device {
	return slices.DeleteFunc(dir.Devices(), func(d Device) bool { return d.Principal != p || d.Revoked() })
}

func (dir *Directory) localDevice() (Device, bool) {
	for _, d := range dir.Devices() {
		if d.Local {
			return d, true
		}
	}
	return Device{}, false
}

// live returns a device that is known and not revoked, and otherwise an error with the reason
// Unauthenticated.
func (dir *Directory) live(id string) (Device, error) {
	d, ok := dir.Device(id)
	if !ok {
		return Device{}, reason.Errorf(reason.Unauthenticated, "device %s is not known", id)
	}
	if d.Revoked() {
		return Device{}, revoked("device %s was revoked at %s", id, d.RevokedAt.Format(time.RFC3339))
	}
	if d.Session() && !dir.now().Before(d.LoginUntil) {
		return Device{}, loggedOut(d)
	}
	return d, nil
}

// Binding returns the login of a member; false for a member without one.
func (dir *Directory) Binding(p access.Principal) (Binding, bool) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	for who, member := range dir.bindings {
		if member == p {
			return Binding{Issuer: who.issuer, Subject: who.subject, Member: p}, true
		}
	}
	return Binding{}, false
}

// memberOf returns the member of a person at an identity provider.
func (dir *Directory) memberOf(who person) (access.Principal, bool) {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	p, bound := dir.bindings[who]
	return p, bound
}

// OnChange registers the function that passes the members to policy. It runs after a change of
// a member and before the member's open work ends, so that no work starts in between with the
// previous state. Register before serving.
func (dir *Directory) OnChange(fn func(ctx context.Context, actor access.Principal) error) {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.onChange = fn
}

// publish passes the members to policy, even if the change ended its own request. The change
// remains in force after an error.
func (dir *Directory) publish(ctx context.Context, actor access.Principal) error {
	dir.mu.RLock()
	fn := dir.onChange
	dir.mu.RUnlock()
	if fn == nil {
		return nil
	}
	if err := fn(context.WithoutCancel(ctx), actor); err != nil {
		return fmt.Errorf("letting policy know: %w", err)
	}
	return nil
}

// OnOwner registers the function that is called for an agent that gets another owner or is
// removed. The events that it returns are committed with that change. Register before serving.
func (dir *Directory) OnOwner(fn func(ctx context.Context, actor, agent access.Principal) ([]event.Draft, error)) {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	dir.onOwner = fn
}

// ownershipEnds returns the events of OnOwner for a change.
func (dir *Directory) ownershipEnds(ctx context.Context, actor access.Principal, c Change) (list []event.Draft, err error) {
	dir.mu.RLock()
	fn := dir.onOwner
	dir.mu.RUnlock()
	for _, m := range c.Members {
		was, _ := dir.registry.Get(m.Principal)
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

// locked makes one change at a time. It adds the action to the error of the change.
func locked[T any](dir *Directory, action string, change func() (T, error)) (T, error) {
	dir.changing.Lock()
	defer dir.changing.Unlock()
	made, err := change()
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", action, err)
	}
	return made, nil
}

// change makes one change at a time, and repeats it as again does.
func (dir *Directory) change(ctx context.Context, change func() error) error {
	dir.changing.Lock()
	defer dir.changing.Unlock()
	return dir.again(ctx, change)
}

// again repeats a change once, with the current devices, if another process changed the device
// first.
func (dir *Directory) again(ctx context.Context, change func() error) error {
	err := change()
	if !errors.Is(err, ErrConflict) {
		return err
	}
	list, err := dir.store.Devices(ctx)
	if err != nil {
		return fmt.Errorf("loading devices: %w", err)
	}
	dir.mu.Lock()
	for _, d := range list {
		dir.devices[d.ID] = d
	}
	dir.mu.Unlock()
	dir.reach()
	return change()
}

// apply makes a change with its events durable and then visible. The caller MUST hold changing
// since it checked the change. A started change completes even if the caller disconnects:
// otherwise the memory could differ from the store.
//
// Only apply adds the effect of a change on members to their history, so that every change is
// recorded. Only an owner's consent enables an agent that waits for it.
func (dir *Directory) apply(ctx context.Context, actor access.Principal, c Change, d drafts) error {
	if c.Events = d.list; d.err != nil {
		return d.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Acts = append(c.Acts, dir.acts(actor, c)...)
	for i, e := range c.Events {
		if !e.Code.Attributed() {
			continue
		}
		by, err := e.By(access.DeviceOf(ctx))
		if err != nil {
			return err
		}
		c.Events[i] = by
	}
	dir.settleConsent(actor, &c)
	if rehearsed(ctx, c) {
		return errRehearsed
	}
	ends, err := dir.ownershipEnds(ctx, actor, c)
	if err != nil {
		return err
	}
	c.Events = append(slices.Clip(c.Events), ends...)
	if err := dir.store.Apply(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	dir.mu.Lock()
	for _, d := range slices.Concat(c.NewDevices, c.Devices) {
		dir.devices[d.ID] = d
	}
	for _, id := range c.Forgotten {
		delete(dir.devices, id)
	}
	for _, b := range c.NewBindings {
		dir.bindings[person{b.Issuer, b.Subject}] = b.Member
	}
	dir.history = append(slices.Clip(dir.history), c.Acts...)
	dir.mu.Unlock()
	dir.reach()
	for _, m := range slices.Concat(c.NewMembers, c.Members) {
		dir.registry.Put(m)
	}
	return nil
}

// reach passes the members with a device to the registry.
func (dir *Directory) reach() {
	dir.mu.RLock()
	bound := slices.Collect(maps.Values(dir.bindings))
	dir.mu.RUnlock()
	dir.registry.Reach(Reachable(dir.Devices(), bound))
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

// newDevice returns a device with a fresh id and no certificate yet.
func (dir *Directory) newDevice(p access.Principal, name string) (Device, error) {
	now := dir.instant()
	id, err := ulid.New(ulid.Timestamp(now), dir.rand)
	if err != nil {
		return Device{}, fmt.Errorf("making a device id: %w", err)
	}
	return Device{ID: id.String(), Principal: p, Name: name, CreatedAt: now, Version: 1}, nil
}

// instant returns the current time in the precision of stores: UTC with microseconds.
func (dir *Directory) instant() time.Time { return dir.now().UTC().Truncate(time.Microsecond) }
