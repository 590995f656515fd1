package identity

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/provenance"
)

// Collect issues another certificate for the device with which actor added m, if the device's
// key signed csr and was never used. It serves a requester that disconnected before the change
// was applied, so that the first certificate was lost with the response. It returns false for
// every other member; AddMember then returns the error.
//
// It grants no permission: the device already has the key, and could renew its certificate.
func (s *Service) Collect(ctx context.Context, actor access.Principal, m access.Member, csr []byte) (Admission, bool, error) {
	was, known := s.registry.Get(m.Principal)
	if !known || was.Owner != m.Owner || !slices.Equal(was.Roles, tidy(m.Roles)) || !s.added(actor, m.Principal) {
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
func (s *Service) added(actor, member access.Principal) bool {
	return slices.ContainsFunc(s.History(), func(a provenance.Act) bool {
		return a.Member == member && a.Kind == provenance.Made && slices.Contains(a.By, actor)
	})
}

// unused returns the device of a member whose only key is the given one, if the key is valid
// and was never used.
func (s *Service) unused(member access.Principal, key string) (Device, bool) {
	now := s.now()
	for _, d := range s.Devices() {
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
