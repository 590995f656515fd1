package identity

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// Certificates issues further certificates for devices that exist.
type Certificates struct {
	dir       *Directory
	authority *ca.Authority
	// renewals counts the renewals of the last hour by device; dir.changing guards them.
	renewals map[string]renewals
}

// Renew certifies a key for a device that is known and not revoked, and whose member is not
// disabled. The key is the current one, or a new one whose first use ends the previous keys.
// The caller of Renew MUST have authenticated the device by mTLS. by is the digest of the key
// that the device used.
func (s *Certificates) Renew(ctx context.Context, deviceID, by string, csr []byte) (ca.Issued, error) {
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	return s.renew(ctx, deviceID, by, csr)
}

// renew is Renew for a caller that holds dir.changing.
func (s *Certificates) renew(ctx context.Context, deviceID, by string, csr []byte) (cert ca.Issued, err error) {
	err = s.dir.again(ctx, func() error {
		cert, err = s.renewOnce(ctx, deviceID, by, csr)
		return err
	})
	if err != nil {
		return ca.Issued{}, fmt.Errorf("renewing: %w", err)
	}
	return cert, nil
}

func (s *Certificates) renewOnce(ctx context.Context, deviceID, by string, csr []byte) (ca.Issued, error) {
	dev, err := s.dir.live(deviceID)
	if err != nil {
		return ca.Issued{}, err
	}
	if dev.Session() {
		return ca.Issued{}, reason.Errorf(reason.PermissionDenied, "the certificate of a login cannot be renewed; it expires at %s", dev.LoginUntil.Format(time.RFC3339)).
			WithRemedy("Log in again: `palyra login`.")
	}
	if m, ok := s.dir.registry.Active(dev.Principal); !ok && m.AwaitsConsent {
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
	if err := renewable(dev, by, cert, s.dir.now()); err != nil {
		return ca.Issued{}, err
	}
	return s.recertified(ctx, dev, cert)
}

// renewable refuses a renewal with a key that a newer key is replacing, and a renewal of such a
// key. Otherwise a copy of the old credential could be renewed indefinitely.
func renewable(dev Device, by string, c ca.Issued, now time.Time) error {
	for _, digest := range []string{by, c.KeySHA256} {
		if k, known := dev.key(digest, now); known && !k.EndsAt.IsZero() {
			return replaced(dev.ID)
		}
	}
	return nil
}

// mostRenewals limits a device's certificate renewals per hour. A working client renews every
// 16 hours, and each renewal writes up to two journal events.
const mostRenewals = 300

// renewals counts the renewals of a device in the hour that started with the first one.
type renewals struct {
	since time.Time
	n     int
}

// countRenewal refuses a device that renews its certificate too often. The caller holds
// dir.changing.
func (s *Certificates) countRenewal(device string) error {
	now := s.dir.now()
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
func (s *Certificates) recertified(ctx context.Context, dev Device, cert ca.Issued) (ca.Issued, error) {
	dev.holds(cert, s.dir.now())
	dev.Version++
	var d drafts
	d.certificate(dev.Principal, dev, cert, true)
	return cert, s.dir.apply(ctx, dev.Principal, Change{Devices: []Device{dev}}, d)
}

// Collect issues another certificate for the device with which actor added m, if the device's
// key signed csr and was never used. It serves a requester that disconnected before the change
// was applied, so that the first certificate was lost with the response. It returns false for
// every other member; AddMember then returns the error.
//
// It grants no permission: the device already has the key, and could renew its certificate.
func (s *Certificates) Collect(ctx context.Context, actor access.Principal, m access.Member, csr []byte) (Admission, bool, error) {
	was, known := s.dir.registry.Get(m.Principal)
	if !known || was.Owner != m.Owner || !slices.Equal(was.Roles, tidy(m.Roles)) || !added(s.dir.History(), actor, m.Principal) {
		return Admission{}, false, nil
	}
	dev, found := s.unused(m.Principal, keyOfRequest(csr))
	if !found {
		return Admission{}, false, nil
	}
	cert, err := s.Renew(ctx, dev.ID, dev.KeySHA256, csr)
	return Admission{Member: was, Device: dev, Certificate: cert}, true, err
}

// added reports whether actor added a member.
func added(history provenance.History, actor, member access.Principal) bool {
	return slices.ContainsFunc(history, func(a provenance.Act) bool {
		return a.Member == member && a.Kind == provenance.Made && slices.Contains(a.By, actor)
	})
}

// unused returns the device of a member whose only key is the given one, if the key is valid
// and was never used.
func (s *Certificates) unused(member access.Principal, key string) (Device, bool) {
	now := s.dir.now()
	for _, d := range s.dir.Devices() {
		if d.Principal == member && !d.Revoked() && len(d.Keys) == 1 && d.Keys[0].SHA256 == key && d.Keys[0].UsedAt.IsZero() && now.Before(d.NotAfter) {
			return d, true
		}
	}
	return Device{}, false
}

// keyOfRequest returns the digest of the key of a certificate request (PEM), "" for a request
// that does not parse.
func keyOfRequest(request []byte) string {
	block, _ := pem.Decode(request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return canonical.Digest(parsed.RawSubjectPublicKeyInfo)
}
