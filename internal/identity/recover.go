package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// noticePeriod is how long the member and the owners are notified of a device added on the gateway's host.
const noticePeriod = 7 * 24 * time.Hour

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
func (s *Service) AddDevice(ctx context.Context, actor access.Principal, by string, r Recovery) (Recovered, error) {
	if err := s.permitted(ctx, change.AddDevice); err != nil {
		return Recovered{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	made, err := s.addDevice(ctx, actor, by, r)
	if err != nil {
		return Recovered{}, fmt.Errorf("adding a device: %w", err)
	}
	for _, dev := range made.Revoked {
		s.tellRevoked(dev)
	}
	return made, nil
}

func (s *Service) addDevice(ctx context.Context, actor access.Principal, by string, r Recovery) (Recovered, error) {
	if from, known := s.Device(by); actor != Daemon() && (!known || !from.Local) {
		return Recovered{}, reason.Errorf(reason.PermissionDenied, "only the gateway's own host gives a member another device").
			WithRemedy("Run `palyrad operator bundle NAME` there.")
	}
	m, err := s.find(r.Member)
	if err != nil {
		return Recovered{}, err
	}
	if err := s.mayGive(actor, m.Roles); err != nil {
		return Recovered{}, err
	}
	reachable := m
	reachable.NoDevice = false
	if err := s.accepted(s.lossOfAdding(reachable), r.AcceptLoss); err != nil {
		return Recovered{}, err
	}
	dev, err := s.newDevice(m.Principal, m.Principal.Name)
	if err != nil {
		return Recovered{}, err
	}
	cert, err := s.authority.IssueDevice(r.Request, dev.ID)
	if err != nil {
		return Recovered{}, err
	}
	dev.holds(cert, s.now())
	made := Recovered{Device: dev, Certificate: cert}
	var d drafts
	d.certificate(actor, dev, cert, false)
	if r.RevokeOld {
		made.Revoked = s.replaced(actor, dev, &d)
	}
	d.add(event.DeviceAdded, actor, dev.ID, deviceAdded{DeviceID: dev.ID, Principal: dev.Principal, Revoked: ids(made.Revoked)})
	if d.err != nil {
		return Recovered{}, d.err
	}
	return made, s.apply(ctx, actor, Change{NewDevices: []Device{dev}, Devices: made.Revoked, Events: d.list})
}

// replaced revokes and returns the devices that a new device replaces.
func (s *Service) replaced(actor access.Principal, by Device, d *drafts) []Device {
	var list []Device
	for _, old := range s.Devices() {
		if old.Principal != by.Principal || old.Revoked() {
			continue
		}
		d.revoke(&old, actor, "replaced by device "+by.ID, by.CreatedAt)
		list = append(list, old)
	}
	return list
}

// find returns the member with this name. It refuses a member that may not act.
func (s *Service) find(name string) (access.Member, error) {
	m, known, err := s.named(name)
	if err != nil {
		return access.Member{}, err
	}
	if !known {
		return access.Member{}, reason.Errorf(reason.NotFound, "member %s not found", name).
			WithRemedy("See `palyra members list`; `palyrad operator add NAME --role ROLE` adds one.")
	}
	if _, active := s.registry.Active(m.Principal); !active && !s.waits(m.Principal) {
		return access.Member{}, reason.Errorf(reason.InvalidInput, "%s may not act: it or its owner is disabled or was removed", m.Principal)
	}
	return m, nil
}

// named returns the member with a name, regardless of its permissions.
func (s *Service) named(name string) (m access.Member, known bool, err error) {
	meant := []access.Principal{access.User(name), access.Agent(name)}
	if strings.Contains(name, ":") {
		p, err := access.ParsePrincipal(name)
		if err != nil {
			return access.Member{}, false, reason.Errorf(reason.InvalidInput, "member: %w", err)
		}
		meant = []access.Principal{p}
	}
	for _, p := range meant {
		if m, known = s.registry.Get(p); known {
			return m, true, nil
		}
	}
	return access.Member{}, false, nil
}

// Added returns the devices, newest last, that the gateway's host added to a member in the last
// seven days. A principal gets its own and its agents' devices, and an owner gets all devices.
func (s *Service) Added(p access.Principal) []Device {
	m, known := s.registry.Active(p)
	since := s.now().Add(-noticePeriod)
	first := map[access.Principal]bool{}
	var list []Device
	for _, d := range s.Devices() { // ordered by id, and therefore by age
		if d.Session() {
			continue
		}
		again := first[d.Principal]
		first[d.Principal] = true
		mine := d.Principal == p || s.owns(p, d.Principal)
		if again && d.CreatedAt.After(since) && known && (mine || m.Holds(access.RoleOwner)) {
			list = append(list, d)
		}
	}
	return list
}

// owns reports whether an agent acts for the user.
func (s *Service) owns(user, agent access.Principal) bool {
	m, known := s.registry.Get(agent)
	return known && m.Owner == user
}

func ids(devices []Device) []string {
	list := make([]string, len(devices))
	for i, d := range devices {
		list[i] = d.ID
	}
	slices.Sort(list)
	return list
}
