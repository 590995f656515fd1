package identity

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// Pairing is an approved request over the network for a new device.
type Pairing struct {
	// DeviceID is the ULID of the new device, from NewDeviceID.
	DeviceID string
	// Name is the device's own name; "" for the name of its member.
	Name string
	// Member is the member that gets the device. If New is true, Pair also creates the member, with
	// Roles and Owner.
	Member access.Principal
	New    bool
	Roles  []access.Role
	Owner  access.Principal
	// AcceptLoss means that MadeBy accepts that members lose the ability to answer approvals.
	AcceptLoss bool
	// MadeBy created the code, and ApprovedBy approved the device. Each of them may possess the
	// device.
	MadeBy     access.Principal
	ApprovedBy []access.Principal
	// Request is the certificate request for the device's key.
	Request []byte
	// Code and ApprovalID identify the pairing code and the approval, for the journal.
	Code, ApprovalID string
}

// NewDeviceID returns an id for a new device.
func NewDeviceID(at time.Time) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a device id: %w", err)
	}
	return id.String(), nil
}

// Pairings adds the devices of approved requests over the network.
type Pairings struct {
	dir          *Directory
	authority    *ca.Authority
	certificates *Certificates
}

// MayPair returns the error that Pair would return for a pairing, before the device exists: the
// member is unknown or may not act, MadeBy may not grant the roles, or a loss is not accepted.
func (s *Pairings) MayPair(p Pairing) error {
	_, err := s.pairable(p)
	return err
}

// pairable returns the member as it will be after the pairing.
func (s *Pairings) pairable(p Pairing) (access.Member, error) {
	m, known := s.dir.registry.Get(p.Member)
	switch {
	case p.New && known:
		return m, reason.Errorf(reason.AlreadyExists, "the member %s already exists, or existed before", p.Member).
			WithRemedy("Choose another name; or give that member another device with --member.")
	case p.New:
		m = access.Member{Principal: p.Member, Owner: p.Owner, Roles: tidy(p.Roles), CreatedAt: s.dir.instant()}
		if err := checkMember(s.dir.registry, m); err != nil {
			return m, err
		}
	default:
		var err error
		if m, err = findMember(s.dir.registry, p.Member.String()); err != nil {
			return m, err
		}
	}
	if _, active := s.dir.registry.Active(p.MadeBy); !active {
		return m, reason.Errorf(reason.PermissionDenied, "%s, who created the pairing code, is no longer an active member", p.MadeBy)
	}
	// All members may add devices for themselves.
	if p.New || p.MadeBy != p.Member {
		if err := mayGive(s.dir.registry, p.MadeBy, m.Roles); err != nil {
			return m, err
		}
	}
	reachable := m
	reachable.NoDevice = false
	return m, accepted(lossOfAdding(s.dir.registry, reachable), p.AcceptLoss)
}

// Pair adds the device of a pairing to a member. The caller MUST have the approval of the
// pairing.
func (s *Pairings) Pair(ctx context.Context, p Pairing) (Admission, error) {
	return locked(s.dir, "pairing", func() (Admission, error) { return s.pair(ctx, p) })
}

func (s *Pairings) pair(ctx context.Context, p Pairing) (Admission, error) {
	if p.ApprovalID == "" || p.DeviceID == "" || len(p.ApprovedBy) == 0 {
		return Admission{}, reason.Errorf(reason.PermissionDenied, "the device has no approval")
	}
	if _, known := s.dir.Device(p.DeviceID); known {
		return Admission{}, reason.Errorf(reason.AlreadyExists, "the device %s already exists", p.DeviceID)
	}
	m, err := s.pairable(p)
	if err != nil {
		return Admission{}, err
	}
	dev := Device{ID: p.DeviceID, Principal: m.Principal, Name: p.Name, CreatedAt: s.dir.instant(), Version: 1}
	if !deviceName.MatchString(dev.Name) {
		dev.Name = m.Principal.Name
	}
	cert, err := s.authority.IssueDevice(p.Request, dev.ID)
	if err != nil {
		return Admission{}, err
	}
	dev.holds(cert, s.dir.now())
	c := Change{NewDevices: []Device{dev}}
	var d drafts
	if p.New {
		c.NewMembers = []access.Member{m}
		d.member(p.MadeBy, m)
	}
	d.certificate(p.MadeBy, dev, cert, false)
	d.add(event.DevicePaired, p.MadeBy, dev.ID, devicePaired{
		DeviceID: dev.ID, Principal: dev.Principal, Code: p.Code, ApprovalID: p.ApprovalID, MadeBy: p.MadeBy, ApprovedBy: p.ApprovedBy,
	})
	// Each approver may possess the device, like the creator of the code.
	for _, voter := range p.ApprovedBy {
		if voter != p.MadeBy && voter != p.Member {
			c.Acts = append(c.Acts, provenance.Act{Member: p.Member, Kind: provenance.DeviceGiven, By: []access.Principal{voter}, At: dev.CreatedAt})
		}
	}
	if err := s.dir.apply(ctx, p.MadeBy, c, d); err != nil {
		return Admission{}, err
	}
	return Admission{Member: m, Device: dev, Certificate: cert}, s.dir.publish(ctx, p.MadeBy)
}

// PairAgain issues another certificate for the key of a device that was paired at most within
// ago, because the first certificate was lost in transit. The caller MUST have proved that the
// requester holds the key.
func (s *Pairings) PairAgain(ctx context.Context, key string, request []byte, within time.Duration) (Device, ca.Issued, error) {
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	asked, err := x509.ParseCertificateRequest(request)
	if err != nil || canonical.Digest(asked.RawSubjectPublicKeyInfo) != key {
		return Device{}, ca.Issued{}, reason.Errorf(reason.InvalidInput, "the certificate request is for another key")
	}
	for _, dev := range s.dir.Devices() {
		if dev.KeySHA256 == key && !dev.Local && !dev.Revoked() && s.dir.now().Sub(dev.CreatedAt) <= within {
			cert, err := s.certificates.renew(ctx, dev.ID, key, request)
			return dev, cert, err
		}
	}
	return Device{}, ca.Issued{}, reason.Errorf(reason.NotFound, "no pairing of this key is in progress, and none issued a certificate for it recently").
		WithRemedy("Pair again with a new code: run `palyra pairing code` on a machine that can use the gateway. If `palyra devices list` already lists a device for this machine, revoke it.")
}
