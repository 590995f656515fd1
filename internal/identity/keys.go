package identity

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// KeyGrace is how long a key works after the first use of its replacement, because another
// shell may be using it.
const KeyGrace = 5 * time.Minute

// alarmEvery is how often the use of a replaced key is journaled, per device.
const alarmEvery = time.Hour

// replaced returns the error for a device that uses a key that was replaced.
func replaced(id string) *reason.Error {
	return reason.Errorf(reason.KeyReplaced, "the key of device %s was replaced by a newer one, and is refused since", id).
		WithRemedy("Use the bundle with the newer key. If none of your bundles has it, another person does: run `palyra devices revoke %s` with another device, or `palyrad operator bundle NAME --revoke-old` on the gateway's host.", id)
}

// Keys records the use of the keys of devices, and ends a key after the first use of its
// replacement.
type Keys struct {
	dir *Directory
	// changed wakes Run.
	changed chan struct{}

	// mu guards the fields below.
	mu sync.RWMutex
	// restoredAt is the time at which the gateway was restored from a backup; zero for never.
	restoredAt time.Time
	// lastUse is the time of each device's last use since the start.
	lastUse map[string]time.Time
	onEnd   []func(deviceID, keySHA256 string, why *reason.Error)
}

// SetRestoredAt sets the time at which the gateway was restored from a backup. Keys certified
// between the backup and that time are not in the store. Call it before serving.
func (s *Keys) SetRestoredAt(restoredAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restoredAt = restoredAt
}

// lost reports whether a key was certified for a device in the part of the journal that a
// restore lost. The gateway does not have such a key, and it is newer than every known key, so
// that it replaced them. A key from after the restore belongs to another copy of the gateway,
// and an earlier key was replaced. Without this exception, a gateway restored from the last
// backup would refuse nearly all devices, because each gets a new key every 16 hours. The cost:
// for 31 days after a restore, a stolen issuing key can be used to create such a certificate.
func (s *Keys) lost(dev Device, leaf *x509.Certificate) bool {
	s.mu.RLock()
	restoredAt := s.restoredAt
	s.mu.RUnlock()
	certifiedAt := leaf.NotAfter.Add(-ca.LeafLife)
	if dev.Session() || certifiedAt.After(restoredAt) { // never restored is the zero time
		return false
	}
	return !slices.ContainsFunc(dev.Keys, func(k Key) bool { return !leaf.NotAfter.After(k.NotAfter) })
}

// holdsKey reports whether a device may act with the key of the presented certificate.
func (s *Keys) holdsKey(dev Device, who presented) bool {
	_, good := dev.key(who.key, s.dir.now())
	return good || s.lost(dev, who.leaf)
}

// use records a request of a device from an address, with a key that the peer has proved to hold.
func (s *Keys) use(ctx context.Context, dev Device, who presented, from string) error {
	if !s.holdsKey(dev, who) {
		return s.alarm(ctx, dev.ID, who.key, from)
	}
	if key, known := dev.key(who.key, s.dir.now()); !known || key.UsedAt.IsZero() {
		return s.firstUse(ctx, who)
	}
	s.noteDevice(dev.ID)
	return nil
}

// firstUse makes the key of a certificate the current one of its device.
func (s *Keys) firstUse(ctx context.Context, who presented) error {
	err := s.dir.change(ctx, func() error {
		dev, err := s.dir.live(who.deviceID)
		if err != nil {
			return err
		}
		leaf, digest := who.leaf, who.key
		key, good := dev.key(digest, s.dir.now())
		lost := !good && s.lost(dev, leaf)
		if !good && !lost || !key.UsedAt.IsZero() {
			return nil // another caller was first
		}
		now := s.dir.instant()
		if lost {
			dev.holds(ca.Issued{Serial: leaf.SerialNumber.Text(16), KeySHA256: digest, NotAfter: leaf.NotAfter}, now)
		}
		var ending []string
		dev.Keys, ending = used(dev.Keys, digest, now)
		dev.Version++
		var d drafts
		if len(ending) > 0 || lost {
			d.add(event.DeviceKeyReplaced, dev.Principal, dev.ID, deviceKeyReplaced{
				DeviceID: dev.ID, Principal: dev.Principal, KeySHA256: digest, Replaced: ending, Until: now.Add(KeyGrace), Lost: lost,
			})
		}
		return s.dir.apply(ctx, dev.Principal, Change{Devices: []Device{dev}}, d)
	})
	if err != nil {
		return fmt.Errorf("noting that device %s uses another key: %w", who.deviceID, err)
	}
	s.noteDevice(who.deviceID)
	s.wake()
	return nil
}

// alarm journals the use of a replaced key, once per device and hour.
func (s *Keys) alarm(ctx context.Context, id, digest, from string) error {
	if dev, _ := s.dir.Device(id); alarmed(dev, s.dir.now()) {
		return nil
	}
	err := s.dir.change(ctx, func() error {
		dev, err := s.dir.live(id)
		if err != nil || alarmed(dev, s.dir.now()) {
			return err
		}
		dev.OldKeyAt = s.dir.instant()
		dev.Version++
		var d drafts
		d.add(event.OldKeyUsed, Daemon(), dev.ID, oldKeyUsed{DeviceID: dev.ID, Principal: dev.Principal, KeySHA256: digest, Address: from})
		return s.dir.apply(ctx, Daemon(), Change{Devices: []Device{dev}}, d)
	})
	if err != nil {
		return fmt.Errorf("raising the alarm of an old key of device %s: %w", id, err)
	}
	return nil
}

func alarmed(d Device, now time.Time) bool {
	return !d.OldKeyAt.IsZero() && now.Sub(d.OldKeyAt) < alarmEvery
}

// noteDevice records the use of a device. LastUse is accurate to a minute.
func (s *Keys) noteDevice(id string) {
	now := s.dir.instant()
	s.mu.RLock()
	last := s.lastUse[id]
	s.mu.RUnlock()
	if now.Sub(last) < time.Minute {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUse[id] = now
}

// LastUse returns the time of a device's last use, zero if unknown. It is accurate to the
// minute for uses since the start of the process. For earlier uses it is the first use of the
// device's newest used key.
func (s *Keys) LastUse(d Device) (at time.Time) {
	for _, k := range d.Keys {
		at = later(at, k.UsedAt)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return later(at, s.lastUse[d.ID])
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// OnEnd registers a function that is called for every key that ends, so that sessions opened
// with the key can end. Register before serving.
func (s *Keys) OnEnd(fn func(deviceID, keySHA256 string, why *reason.Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onEnd = append(s.onEnd, fn)
}

// wake makes Run recompute the end of the keys.
func (s *Keys) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run ends the sessions of a key when the key ends, until ctx ends.
func (s *Keys) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	before := map[ending]bool{}
	for {
		next, ended := s.endings()
		now := map[ending]bool{}
		for _, e := range ended {
			now[e] = true
			if !before[e] {
				s.endKey(e)
			}
		}
		before = now
		wait := upkeep
		if !next.IsZero() {
			wait = next.Sub(s.dir.now())
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-timer.C:
		}
	}
}

// ending is a key of a device that has ended.
type ending struct{ device, key string }

// endings returns the keys that have ended, and the time at which the next key ends.
func (s *Keys) endings() (next time.Time, ended []ending) {
	now := s.dir.now()
	for _, d := range s.dir.Devices() {
		for _, k := range d.Keys {
			switch {
			case k.EndsAt.IsZero():
			case k.ended(now):
				ended = append(ended, ending{d.ID, k.SHA256})
			case next.IsZero() || k.EndsAt.Before(next):
				next = k.EndsAt
			}
		}
	}
	return next, ended
}

func (s *Keys) endKey(e ending) {
	s.mu.RLock()
	onEnd := slices.Clone(s.onEnd)
	s.mu.RUnlock()
	for _, fn := range onEnd {
		fn(e.device, e.key, replaced(e.device))
	}
}
