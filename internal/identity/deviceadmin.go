package identity

import (
	"context"
	"fmt"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// maxReason bounds the text of a revocation, in bytes.
const maxReason = 500

// DeviceAdmin adds devices on the gateway's host, and renames and revokes devices.
type DeviceAdmin struct {
	dir       *Directory
	work      *OpenWork
	authority *ca.Authority
	guard     change.Guard
}

// Recovery is a device for a member whose credential is lost.
type Recovery struct {
	// Member is "user:bob", "agent:helper", or only a name: the user of that name, or the agent if
	// no such user exists.
	Member string
	// Request is the certificate request for the key of the new device.
	Request []byte
	// RevokeOld revokes the member's existing devices.
	RevokeOld bool
	// AcceptLoss means that the actor accepts that members lose the ability to answer approvals.
	AcceptLoss bool
}

// Recovered is the result of AddDevice: the device, its certificate, and the devices revoked
// for it.
type Recovered struct {
	Device      Device
	Certificate ca.Issued
	Revoked     []Device
}

// AddDevice adds another device to a member. The holder of the device acts as the member, so
// that the gateway's own host is required. actor is the daemon itself, or the local operator
// with the device that palyrad keeps there (by is its id).
func (s *DeviceAdmin) AddDevice(ctx context.Context, actor access.Principal, by string, r Recovery) (Recovered, error) {
	if err := permitted(ctx, s.guard, change.AddDevice); err != nil {
		return Recovered{}, err
	}
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	made, err := s.addDevice(ctx, actor, by, r)
	if err != nil {
		return Recovered{}, fmt.Errorf("adding a device: %w", err)
	}
	for _, dev := range made.Revoked {
		s.work.endRevoked(dev)
	}
	return made, nil
}

func (s *DeviceAdmin) addDevice(ctx context.Context, actor access.Principal, by string, r Recovery) (Recovered, error) {
	if from, known := s.dir.Device(by); actor != Daemon() && (!known || !from.Local) {
		return Recovered{}, reason.Errorf(reason.PermissionDenied, "only the gateway's own host gives a member another device").
			WithRemedy("Run `palyrad operator bundle NAME` there.")
	}
	m, err := findMember(s.dir.registry, r.Member)
	if err != nil {
		return Recovered{}, err
	}
	if err := mayGive(s.dir.registry, actor, m.Roles); err != nil {
		return Recovered{}, err
	}
	reachable := m
	reachable.NoDevice = false
	if err := accepted(lossOfAdding(s.dir.registry, reachable), r.AcceptLoss); err != nil {
		return Recovered{}, err
	}
	dev, err := s.dir.newDevice(m.Principal, m.Principal.Name)
	if err != nil {
		return Recovered{}, err
	}
	cert, err := s.authority.IssueDevice(r.Request, dev.ID)
	if err != nil {
		return Recovered{}, err
	}
	dev.holds(cert, s.dir.now())
	made := Recovered{Device: dev, Certificate: cert}
	var d drafts
	d.certificate(actor, dev, cert, false)
	if r.RevokeOld {
		made.Revoked = s.replaced(actor, dev, &d)
	}
	d.add(event.DeviceAdded, actor, dev.ID, deviceAdded{DeviceID: dev.ID, Principal: dev.Principal, Revoked: ids(made.Revoked)})
	return made, s.dir.apply(ctx, actor, Change{NewDevices: []Device{dev}, Devices: made.Revoked}, d)
}

// replaced revokes and returns the devices that a new device replaces.
func (s *DeviceAdmin) replaced(actor access.Principal, by Device, d *drafts) []Device {
	var list []Device
	for _, old := range s.dir.Devices() {
		if old.Principal != by.Principal || old.Revoked() {
			continue
		}
		d.revoke(&old, actor, "replaced by device "+by.ID, by.CreatedAt)
		list = append(list, old)
	}
	return list
}

func ids(devices []Device) []string {
	list := make([]string, len(devices))
	for i, d := range devices {
		list[i] = d.ID
	}
	slices.Sort(list)
	return list
}

// Revoke ends a device permanently: its next handshake fails and its live streams end. Owners may
// revoke any device, admins any except owners' devices, and a member its own. Revoking twice
// changes nothing. If a member loses its ability to answer approvals, the actor must accept that.
func (s *DeviceAdmin) Revoke(ctx context.Context, actor access.Principal, deviceID, why string, acceptLoss bool) (dev Device, err error) {
	if len(why) > maxReason {
		return Device{}, reason.Errorf(reason.InvalidInput, "the reason has %d bytes, the limit is %d", len(why), maxReason)
	}
	err = s.dir.change(ctx, func() error {
		dev, err = s.revokeOnce(ctx, actor, deviceID, why, acceptLoss)
		return err
	})
	if err != nil {
		return Device{}, fmt.Errorf("revoking device: %w", err)
	}
	return dev, nil
}

func (s *DeviceAdmin) revokeOnce(ctx context.Context, actor access.Principal, deviceID, why string, acceptLoss bool) (Device, error) {
	dev, ok := s.dir.Device(deviceID)
	if !ok {
		return Device{}, reason.Errorf(reason.NotFound, "device %s not found", deviceID)
	}
	if err := mayRevoke(s.dir.registry, actor, dev); err != nil {
		return Device{}, err
	}
	if dev.Revoked() {
		return dev, nil
	}
	if err := accepted(s.lossOfRevoking(dev), acceptLoss); err != nil {
		return Device{}, err
	}
	var d drafts
	d.revoke(&dev, actor, why, s.dir.instant())
	if err := s.dir.apply(ctx, actor, Change{Devices: []Device{dev}}, d); err != nil {
		return Device{}, err
	}
	s.work.endRevoked(dev)
	return dev, nil
}

// lossOfRevoking describes the loss caused by revoking a device.
func (s *DeviceAdmin) lossOfRevoking(dev Device) string {
	if _, bound := s.dir.Binding(dev.Principal); bound || dev.Revoked() || slices.ContainsFunc(s.dir.Devices(), func(d Device) bool {
		return d.Principal == dev.Principal && d.ID != dev.ID && !d.Revoked()
	}) {
		return ""
	}
	before := s.dir.registry.List()
	after := slices.Clone(before)
	for i := range after {
		if after[i].Principal == dev.Principal {
			after[i].NoDevice = true
		}
	}
	lost := losses(before, after)
	if lost == "" {
		return ""
	}
	return fmt.Sprintf("%s (the way back: `palyrad operator bundle %s` on the gateway's host)", lost, dev.Principal.Name)
}

// revoked returns the error for a request with a revoked device.
func revoked(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, format, args...).
		WithRemedy("Pair this machine as another device with `palyra pair`, or have a new bundle made on the gateway's host: `palyrad operator bundle NAME`.")
}

var deviceName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$`)

// RenameDevice gives a device another name, for people only. It requires the same permission as
// Revoke.
func (s *DeviceAdmin) RenameDevice(ctx context.Context, actor access.Principal, deviceID, name string) (dev Device, err error) {
	err = s.dir.change(ctx, func() error {
		dev, err = s.renameOnce(ctx, actor, deviceID, name)
		return err
	})
	if err != nil {
		return Device{}, fmt.Errorf("renaming device: %w", err)
	}
	return dev, nil
}

func (s *DeviceAdmin) renameOnce(ctx context.Context, actor access.Principal, deviceID, name string) (Device, error) {
	if !deviceName.MatchString(name) {
		return Device{}, reason.Errorf(reason.InvalidInput, "%q is not a valid device name: use 1 to 63 letters, digits, spaces, '.', '_' and '-'", name)
	}
	dev, ok := s.dir.Device(deviceID)
	if !ok {
		return Device{}, reason.Errorf(reason.NotFound, "device %s not found", deviceID)
	}
	if err := mayRevoke(s.dir.registry, actor, dev); err != nil {
		return Device{}, err
	}
	switch {
	case dev.Revoked():
		return Device{}, reason.Errorf(reason.InvalidInput, "device %s was revoked", deviceID)
	case dev.Name == name:
		return dev, nil
	}
	was := dev.Name
	dev.Name = name
	dev.Version++
	var d drafts
	d.add(event.DeviceRenamed, actor, dev.ID, deviceRenamed{DeviceID: dev.ID, Principal: dev.Principal, Name: name, WasName: was})
	return dev, s.dir.apply(ctx, actor, Change{Devices: []Device{dev}}, d)
}
