package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// maxVerified bounds the memory of verified certificates.
const maxVerified = 4096

// verifiedLeaf is what was proven of a certificate's bytes.
type verifiedLeaf struct {
	// deviceID and key are as in shown.
	deviceID, key string
	from, to      time.Time
}

// shown is whose certificate somebody shows.
type shown struct {
	deviceID string
	// key is the digest of its key (Key.SHA256).
	key  string
	leaf *x509.Certificate
}

// Allow is the check of every handshake, for ca.Authority.ServerTLS. An agent that
// waits for consent comes in, to be told so: Authenticate refuses each request.
func (s *Service) Allow(chain []*x509.Certificate) error {
	who, err := s.verify(chain)
	if err != nil {
		return err
	}
	if dev, err := s.live(who.deviceID); err == nil && s.waits(dev.Principal) {
		return nil
	}
	return letIn(s.callerOf(who))
}

// letIn lets a key into the handshake that was replaced: only behind it the peer has
// proven to hold the key, can be told the way back, and is an alarm. Each request
// is refused.
func letIn(_ access.Caller, err error) error {
	if reason.Of(err) == reason.KeyReplaced {
		return nil
	}
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
	who, err := s.verify(chain)
	if err != nil {
		return access.Caller{}, err
	}
	return s.callerOf(who)
}

// AllowExpired is the check of a handshake with an expired certificate, for
// ca.Authority.RenewalTLS.
func (s *Service) AllowExpired(chain []*x509.Certificate) error {
	return letIn(s.AuthenticateExpired(chain))
}

// AuthenticateExpired maps the chain of a certificate that ended at most
// ca.RenewableFor ago to the caller that may renew it, and do nothing else. All but
// the time is as for Authenticate; and no newer key of the device must have been used,
// so that one that was replaced never comes back.
func (s *Service) AuthenticateExpired(chain []*x509.Certificate) (access.Caller, error) {
	who, err := s.verifyExpired(chain)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := s.callerOf(who)
	if err != nil {
		return access.Caller{}, err
	}
	dev, _ := s.Device(who.deviceID)
	if key, _ := dev.key(who.key, s.now()); !key.EndsAt.IsZero() {
		return access.Caller{}, replaced(who.deviceID)
	}
	return c, nil
}

// localBack is the way back of the local operator.
const localBack = "Stop palyrad, run `palyrad operator bundle local --out DIR` on its host, and start it again."

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
	dev, err := s.live(dev.ID)
	if err != nil {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%w", err).WithRemedy(localBack)
	}
	c, err := s.caller(dev)
	if err != nil {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%w", err).WithRemedy(localBack)
	}
	c.Paired, c.Transport = false, access.TransportSocket
	return c, nil
}

// SessionCaller is the caller that a session stands for which a device began: the
// device's member as it is now, without a key of the device. One that the local operator
// began over the socket stands and falls with that. Surface and Paired are left for who
// keeps the session.
func (s *Service) SessionCaller(deviceID string, over access.Transport) (access.Caller, error) {
	if over == access.TransportSocket {
		c, err := s.AuthenticateHost()
		if err == nil && c.DeviceID != deviceID {
			err = reason.Errorf(reason.Unauthenticated, "the local operator has another device by now")
		}
		return c, err
	}
	dev, err := s.live(deviceID)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := s.caller(dev)
	c.Paired = false
	return c, err
}

// AuthenticateAgent returns an agent of the local operator as the caller that its hook
// is: for a connection of which the system says that its process is the local
// operator's. It may report what the agent does, and nothing else, so that it may do
// less than whoever has that uid can do anyway.
func (s *Service) AuthenticateAgent(name string) (access.Caller, error) {
	dev, found := s.localDevice()
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "there is no local operator")
	}
	dev, err := s.live(dev.ID)
	if err != nil {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%w", err).WithRemedy(localBack)
	}
	m, ok := s.registry.Active(access.Agent(name))
	switch {
	case !ok && m.AwaitsConsent:
		return access.Caller{}, m.Waiting()
	case !ok || m.Owner != dev.Principal:
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s has no agent %q for whom a hook without a token could speak", dev.Principal, name).
			WithRemedy("Make it with `palyra hook install %s`, or give the hook a token.", name)
	}
	c := m.Caller(dev.ID)
	c.Transport = access.TransportSocket
	c.Token = &access.TokenBounds{Scopes: []access.Permission{access.PermHookReport}, Creator: m.Owner}
	return c, nil
}

// Stands says why a caller that came with a device, or over the local operator's socket,
// may not go on: its device was revoked, its member was disabled, or what it may do was
// reduced. Its errors have the reason Unauthenticated. A key that was replaced since does
// not end what it began.
func (s *Service) Stands(c access.Caller) error {
	var now access.Caller
	var err error
	if c.Transport == access.TransportSocket && c.Token != nil {
		now, err = s.AuthenticateAgent(c.Principal.Name)
	} else {
		now, err = s.SessionCaller(c.DeviceID, c.Transport)
	}
	if err != nil {
		return err
	}
	return c.Reduced(now)
}

// callerOf is the caller that a device stands for, whose certificate is shown.
func (s *Service) callerOf(who shown) (access.Caller, error) {
	dev, err := s.live(who.deviceID)
	if err != nil {
		return access.Caller{}, err
	}
	if !s.holdsKey(dev, who) {
		return access.Caller{}, replaced(who.deviceID)
	}
	return s.caller(dev)
}

// caller is the caller that a device stands for, however it showed itself.
func (s *Service) caller(dev Device) (access.Caller, error) {
	m, ok := s.registry.Active(dev.Principal)
	if !ok && m.AwaitsConsent {
		return access.Caller{}, m.Waiting()
	}
	if !ok {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s of device %s may not act: it or its owner is disabled or gone", dev.Principal, dev.ID)
	}
	c := m.Caller(dev.ID)
	c.Paired = true
	return c, nil
}

// verify proves a certificate, or remembers that it did: the two signatures
// cost far more than the digest of the bytes. Validity in time is checked
// against the clock either way.
func (s *Service) verify(chain []*x509.Certificate) (shown, error) {
	if len(chain) == 0 {
		return shown{}, reason.Errorf(reason.Unauthenticated, "there is no client certificate")
	}
	key := sha256.Sum256(chain[0].Raw)
	now := s.now()
	s.mu.RLock()
	known, ok := s.verified[key]
	s.mu.RUnlock()
	if ok && !now.Before(known.from) && !now.After(known.to) {
		return shown{known.deviceID, known.key, chain[0]}, nil
	}
	id, err := s.authority.VerifyDevice(chain)
	if err != nil {
		return shown{}, err
	}
	who := shownBy(id, chain)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.verified) >= maxVerified {
		clear(s.verified)
	}
	s.verified[key] = verifiedLeaf{deviceID: id, key: who.key, from: chain[0].NotBefore, to: chain[0].NotAfter}
	return who, nil
}

// verifyExpired is verify for a certificate that ended at most ca.RenewableFor ago.
func (s *Service) verifyExpired(chain []*x509.Certificate) (shown, error) {
	id, err := s.authority.VerifyExpired(chain)
	if err != nil {
		return shown{}, err
	}
	return shownBy(id, chain), nil
}

func shownBy(id string, chain []*x509.Certificate) shown {
	return shown{id, canonical.Digest(chain[0].RawSubjectPublicKeyInfo), chain[0]}
}
