package identity

import (
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// noticePeriod is how long the member and the owners are notified of a device added on the gateway's host.
const noticePeriod = 7 * 24 * time.Hour

// Notices lists the recent changes of members and devices that a principal must be notified of.
type Notices struct{ dir *Directory }

// Waiting returns the agents of an owner for which only the owner's consent is missing.
func (s *Notices) Waiting(owner access.Principal) []access.Principal {
	var list []access.Principal
	for _, m := range s.dir.registry.List() {
		if m.Owner == owner && waits(s.dir.registry, m.Principal) {
			list = append(list, m.Principal)
		}
	}
	return list
}

// Confirmed returns the members that the gateway's host confirmed in the last seven days.
func (s *Notices) Confirmed() []access.Principal {
	since := s.dir.now().Add(-noticePeriod)
	var list []access.Principal
	for _, act := range s.dir.History() {
		if act.Kind == provenance.Confirmed && len(act.By) == 0 && act.At.After(since) && !slices.Contains(list, act.Member) {
			list = append(list, act.Member)
		}
	}
	return list
}

// Added returns the devices, newest last, that the gateway's host added to a member in the last
// seven days. A principal gets its own and its agents' devices, and an owner gets all devices.
func (s *Notices) Added(p access.Principal) []Device {
	m, known := s.dir.registry.Active(p)
	since := s.dir.now().Add(-noticePeriod)
	first := map[access.Principal]bool{}
	var list []Device
	for _, d := range s.dir.Devices() { // ordered by id, and therefore by age
		if d.Session() {
			continue
		}
		again := first[d.Principal]
		first[d.Principal] = true
		mine := d.Principal == p || owns(s.dir.registry, p, d.Principal)
		if again && d.CreatedAt.After(since) && known && (mine || m.Holds(access.RoleOwner)) {
			list = append(list, d)
		}
	}
	return list
}

// OldKeys returns the devices whose replaced key was used in the last seven days. A principal
// gets its own and its agents' devices, and an owner gets all devices.
func (s *Notices) OldKeys(p access.Principal) []Device {
	m, known := s.dir.registry.Active(p)
	since := s.dir.now().Add(-noticePeriod)
	return slices.DeleteFunc(s.dir.Devices(), func(d Device) bool {
		mine := d.Principal == p || owns(s.dir.registry, p, d.Principal)
		return !known || d.Revoked() || !d.OldKeyAt.After(since) || !mine && !m.Holds(access.RoleOwner)
	})
}

// PresenceKeys returns the devices whose presence key was registered or removed in the last
// seven days, or waits for a confirmation. A principal gets its own devices, and an owner gets
// all devices.
func (s *Notices) PresenceKeys(p access.Principal) []Device {
	m, known := s.dir.registry.Active(p)
	since := s.dir.now().Add(-noticePeriod)
	return slices.DeleteFunc(s.dir.Devices(), func(d Device) bool {
		lately := d.Presence.Waits || d.Presence.At.After(since) || d.Presence.ResetAt.After(since)
		return !known || d.Revoked() || !lately || d.Principal != p && !m.Holds(access.RoleOwner)
	})
}
