package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"time"

	"palyra/internal/access"
	"palyra/internal/canonical"
	"palyra/internal/reason"
)

// maxVerified bounds the memory of verified certificates.
const maxVerified = 4096

// verifiedLeaf is what was proven of a certificate's bytes.
type verifiedLeaf struct {
	deviceID string
	from, to time.Time
}

// Allow is the check of every handshake, for ca.Authority.ServerTLS. An agent that
// waits for consent comes in, to be told so: Authenticate refuses each request.
func (s *Service) Allow(chain []*x509.Certificate) error {
	id, err := s.verify(chain)
	if err != nil {
		return err
	}
	if dev, err := s.live(id); err == nil && s.waits(dev.Principal) {
		return nil
	}
	_, err = s.callerOf(id)
	return err
}

// Authenticate maps a client's certificate chain to the caller it stands for.
// The certificate must lead to the gateway's root and be valid now, the device
// must be known and not revoked, the member not disabled, and an agent's owner
// not either, who also consented to the agent. It is called for each request, so that a long-lived connection
// ends with its certificate; its errors have the reason Unauthenticated.
//
// Surface is left for the API to set, and Present is false: a certificate
// proves a key, not a person.
func (s *Service) Authenticate(chain []*x509.Certificate) (access.Caller, error) {
	id, err := s.verify(chain)
	if err != nil {
		return access.Caller{}, err
	}
	return s.callerOf(id)
}

// AllowExpired is the check of a handshake with an expired certificate, for
// ca.Authority.RenewalTLS.
func (s *Service) AllowExpired(chain []*x509.Certificate) error {
	_, err := s.AuthenticateExpired(chain)
	return err
}

// AuthenticateExpired maps the chain of a certificate that ended at most
// ca.RenewableFor ago to the caller that may renew it, and do nothing else. All but
// the time is as for Authenticate; and the key must be the one that was certified
// last, so that one that was replaced never comes back.
func (s *Service) AuthenticateExpired(chain []*x509.Certificate) (access.Caller, error) {
	id, err := s.authority.VerifyExpired(chain)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := s.callerOf(id)
	if err != nil {
		return access.Caller{}, err
	}
	if dev, _ := s.Device(id); dev.KeySHA256 != canonical.Digest(chain[0].RawSubjectPublicKeyInfo) {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the expired certificate is not of the key that device %s has", id)
	}
	return c, nil
}

// AuthenticateHost returns the local operator as the caller that it is without its
// key: for a connection of which the system says whose process it is. It stands and
// falls with the local device, and is not paired.
func (s *Service) AuthenticateHost() (access.Caller, error) {
	dev, found := s.localDevice()
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "there is no local operator")
	}
	if dir := s.localDir.Load(); dir != nil {
		if kept, err := KeptIn(*dir); kept != nil || err != nil {
			return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the local operator's key is kept where its uid alone does not reach it, and so the uid alone is not enough here").
				WithRemedy("Leave out --socket, so that the key is used; `palyra key show` says where it is.")
		}
	}
	c, err := s.callerOf(dev.ID)
	if err != nil {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%w", err).
			WithRemedy("Stop palyrad, run `palyrad operator bundle local --out DIR` on its host, and start it again.")
	}
	c.Paired, c.Transport = false, access.TransportSocket
	return c, nil
}

// callerOf is the caller that a device stands for.
func (s *Service) callerOf(id string) (access.Caller, error) {
	dev, err := s.live(id)
	if err != nil {
		return access.Caller{}, err
	}
	m, ok := s.registry.Active(dev.Principal)
	if !ok && m.AwaitsConsent {
		return access.Caller{}, m.Waiting()
	}
	if !ok {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s of device %s may not act: it or its owner is disabled or gone", dev.Principal, id)
	}
	c := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, DeviceID: dev.ID, Paired: true}
	if m.Principal.Kind == access.KindAgent {
		c.OnBehalfOf = m.Owner
	}
	return c, nil
}

// verify proves a certificate, or remembers that it did: the two signatures
// cost far more than the digest of the bytes. Validity in time is checked
// against the clock either way.
func (s *Service) verify(chain []*x509.Certificate) (string, error) {
	if len(chain) == 0 {
		return "", reason.Errorf(reason.Unauthenticated, "there is no client certificate")
	}
	key := sha256.Sum256(chain[0].Raw)
	now := s.now()
	s.mu.RLock()
	known, ok := s.verified[key]
	s.mu.RUnlock()
	if ok && !now.Before(known.from) && !now.After(known.to) {
		return known.deviceID, nil
	}
	id, err := s.authority.VerifyDevice(chain)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.verified) >= maxVerified {
		clear(s.verified)
	}
	s.verified[key] = verifiedLeaf{deviceID: id, from: chain[0].NotBefore, to: chain[0].NotAfter}
	return id, nil
}
