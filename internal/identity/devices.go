package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// maxReason bounds the text of a revocation, in bytes.
const maxReason = 500

// Renew certifies a key for a device that is known and not revoked, and whose member is not
// disabled. The key is the current one, or a new one whose first use ends the previous keys.
// The caller of Renew MUST have authenticated the device by mTLS. by is the digest of the key
// that the device used.
func (s *Service) Renew(ctx context.Context, deviceID, by string, csr []byte) (ca.Issued, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.renew(ctx, deviceID, by, csr)
}

// renew is Renew for a caller that holds s.changing.
func (s *Service) renew(ctx context.Context, deviceID, by string, csr []byte) (cert ca.Issued, err error) {
	err = s.again(ctx, func() error {
		cert, err = s.renewOnce(ctx, deviceID, by, csr)
		return err
	})
	if err != nil {
		return ca.Issued{}, fmt.Errorf("renewing: %w", err)
	}
	return cert, nil
}

func (s *Service) renewOnce(ctx context.Context, deviceID, by string, csr []byte) (ca.Issued, error) {
	dev, err := s.live(deviceID)
	if err != nil {
		return ca.Issued{}, err
	}
	if dev.Session() {
		return ca.Issued{}, reason.Errorf(reason.PermissionDenied, "the certificate of a login cannot be renewed; it expires at %s", dev.LoginUntil.Format(time.RFC3339)).
			WithRemedy("Log in again: `palyra login`.")
	}
	if m, ok := s.registry.Active(dev.Principal); !ok && m.AwaitsConsent {
		return ca.Issued{}, m.Waiting()
	} else if !ok {
		return ca.Issued{}, reason.Errorf(reason.Unauthenticated, "%s may not act", dev.Principal)
	}
	if err := s.countRenewal(dev.ID); err != nil {
		return ca.Issued{}, err
	}
	cert, err := s.authority.IssueDevice(csr, dev.ID)
	if err != nil {
		return ca.Issued{}, err
	}
	if err := s.renewable(dev, by, cert); err != nil {
		return ca.Issued{}, err
	}
	return s.recertified(ctx, dev, cert)
}

// mostRenewals limits a device's certificate renewals per hour. A working client renews every
// 16 hours, and each renewal writes up to two journal events.
const mostRenewals = 300

// renewals counts the renewals of a device in the hour that started with the first one.
type renewals struct {
	since time.Time
	n     int
}

// countRenewal refuses a device that renews its certificate too often. The caller holds s.changing.
func (s *Service) countRenewal(device string) error {
	now := s.now()
	r := s.renewals[device]
	if since := now.Sub(r.since); since < 0 || since >= time.Hour {
		r = renewals{since: now}
	}
	if r.n++; r.n > mostRenewals {
		return reason.Errorf(reason.RateLimited, "the device %s renewed its certificate %d times within an hour", device, mostRenewals).
			WithRemedy("Its certificate is valid until it expires. Check the program that renews it, or revoke the device: `palyra devices revoke %s`.", device)
	}
	s.renewals[device] = r
	return nil
}

// recertified stores a new certificate of a device.
func (s *Service) recertified(ctx context.Context, dev Device, cert ca.Issued) (ca.Issued, error) {
	dev.holds(cert, s.now())
	dev.Version++
	var d drafts
	d.certificate(dev.Principal, dev, cert, true)
	if d.err != nil {
		return ca.Issued{}, d.err
	}
	return cert, s.apply(ctx, dev.Principal, Change{Devices: []Device{dev}, Events: d.list})
}

// Revoke ends a device permanently: its next handshake fails and its live streams end. Owners may
// revoke any device, admins any except owners' devices, and a member its own. Revoking twice
// changes nothing. If a member loses its ability to answer approvals, the actor must accept that.
func (s *Service) Revoke(ctx context.Context, actor access.Principal, deviceID, why string, acceptLoss bool) (dev Device, err error) {
	if len(why) > maxReason {
		return Device{}, reason.Errorf(reason.InvalidInput, "the reason has %d bytes, the limit is %d", len(why), maxReason)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	err = s.again(ctx, func() error {
		dev, err = s.revokeOnce(ctx, actor, deviceID, why, acceptLoss)
		return err
	})
	if err != nil {
		return Device{}, fmt.Errorf("revoking device: %w", err)
	}
	return dev, nil
}

func (s *Service) revokeOnce(ctx context.Context, actor access.Principal, deviceID, why string, acceptLoss bool) (Device, error) {
	dev, ok := s.Device(deviceID)
	if !ok {
		return Device{}, reason.Errorf(reason.NotFound, "device %s not found", deviceID)
	}
	if err := s.mayRevoke(actor, dev); err != nil {
		return Device{}, err
	}
	if dev.Revoked() {
		return dev, nil
	}
	if err := s.accepted(s.lossOfRevoking(dev), acceptLoss); err != nil {
		return Device{}, err
	}
	var d drafts
	d.revoke(&dev, actor, why, s.instant())
	if d.err != nil {
		return Device{}, d.err
	}
	if err := s.apply(ctx, actor, Change{Devices: []Device{dev}, Events: d.list}); err != nil {
		return Device{}, err
	}
	s.tellRevoked(dev)
	return dev, nil
}

// tellRevoked ends the open streams of a revoked device.
func (s *Service) tellRevoked(dev Device) {
	s.tell(dev, revoked("device %s was revoked", dev.ID))
}

// revoked returns the error for a request with a revoked device.
func revoked(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, format, args...).
		WithRemedy("Pair this machine as another device with `palyra pair`, or have a new bundle made on the gateway's host: `palyrad operator bundle NAME`.")
}

func (s *Service) tell(dev Device, why *reason.Error) {
	s.mu.RLock()
	watchers := slices.Clone(s.watchers)
	s.mu.RUnlock()
	for _, fn := range watchers {
		fn(dev, why)
	}
}

var deviceName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$`)

// RenameDevice gives a device another name, for people only. It requires the same permission as
// Revoke.
func (s *Service) RenameDevice(ctx context.Context, actor access.Principal, deviceID, name string) (dev Device, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	err = s.again(ctx, func() error {
		dev, err = s.renameOnce(ctx, actor, deviceID, name)
		return err
	})
	if err != nil {
		return Device{}, fmt.Errorf("renaming device: %w", err)
	}
	return dev, nil
}

func (s *Service) renameOnce(ctx context.Context, actor access.Principal, deviceID, name string) (Device, error) {
	if !deviceName.MatchString(name) {
		return Device{}, reason.Errorf(reason.InvalidInput, "%q is not a valid device name: use 1 to 63 letters, digits, spaces, '.', '_' and '-'", name)
	}
	dev, ok := s.Device(deviceID)
	if !ok {
		return Device{}, reason.Errorf(reason.NotFound, "device %s not found", deviceID)
	}
	if err := s.mayRevoke(actor, dev); err != nil {
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
	if d.err != nil {
		return Device{}, d.err
	}
	return dev, s.apply(ctx, actor, Change{Devices: []Device{dev}, Events: d.list})
}

func (s *Service) mayRevoke(actor access.Principal, dev Device) error {
	if actor == Daemon() {
		return nil
	}
	m, ok := s.registry.Active(actor)
	if ok && (actor == dev.Principal || m.Holds(access.RoleOwner)) {
		return nil
	}
	if !ok || !m.Holds(access.RoleAdmin) {
		return reason.Errorf(reason.PermissionDenied, "%s may not change the device of %s", actor, dev.Principal)
	}
	if of, known := s.registry.Get(dev.Principal); known && slices.Contains(of.Roles, access.RoleOwner) {
		return reason.Errorf(reason.PermissionDenied, "only an owner changes the device of an owner")
	}
	return nil
}

// again repeats a change once, with the current devices, if another process changed the device
// first.
func (s *Service) again(ctx context.Context, change func() error) error {
	err := change()
	if !errors.Is(err, ErrConflict) {
		return err
	}
	list, err := s.store.Devices(ctx)
	if err != nil {
		return fmt.Errorf("loading devices: %w", err)
	}
	s.mu.Lock()
	for _, d := range list {
		s.devices[d.ID] = d
	}
	s.mu.Unlock()
	s.reach()
	return change()
}
