package identity

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

// maxVerified bounds the memory of verified certificates.
const maxVerified = 4096

// verifiedLeaf is the verified content of a certificate's bytes.
type verifiedLeaf struct {
	// deviceID and key are as in presented.
	deviceID, key string
	from, to      time.Time
}

// presented identifies the owner of a presented certificate.
type presented struct {
	deviceID string
	// key is the digest of its key (Key.SHA256).
	key  string
	leaf *x509.Certificate
}

// Callers authenticates callers by their certificate, their session, or the local operator's
// socket.
type Callers struct {
	dir       *Directory
	keys      *Keys
	local     *LocalOperator
	authority *ca.Authority

	// mu guards verified.
	mu       sync.RWMutex
	verified map[[32]byte]verifiedLeaf
}

// Allow checks every handshake, for ca.Authority.ServerTLS. It accepts an agent without its
// owner's consent, so that the agent receives the reason: Authenticate refuses each request.
func (s *Callers) Allow(chain []*x509.Certificate) error {
	who, err := s.verify(chain)
	if err != nil {
		return err
	}
	if dev, err := s.dir.live(who.deviceID); err == nil && waits(s.dir.registry, dev.Principal) {
		return nil
	}
	return letIn(s.callerOf(who))
}

// letIn accepts a replaced key in the handshake. Only a completed handshake proves that the
// peer holds the key. The peer can then receive the remedy, and the use of the key is reported
// as an alarm. Each request is refused.
func letIn(_ access.Caller, err error) error {
	if reason.Of(err) == reason.KeyReplaced {
		return nil
	}
	return err
}

// Authenticate returns the caller of a client's certificate chain. The certificate MUST lead to
// the gateway's root and be valid now. The device must be known and not revoked, and the member
// not disabled. An agent's owner must not be disabled, and must have consented to the agent.
// Authenticate is called for each request, so that a long-lived connection ends with its
// certificate. Its errors have the reason Unauthenticated, or KeyReplaced for a replaced key.
//
// The API sets Surface. Present is false, because a certificate proves a key, not a person.
func (s *Callers) Authenticate(chain []*x509.Certificate) (access.Caller, error) {
	who, err := s.verify(chain)
	if err != nil {
		return access.Caller{}, err
	}
	return s.callerOf(who)
}

// AllowExpired checks a handshake with an expired certificate, for ca.Authority.RenewalTLS.
func (s *Callers) AllowExpired(chain []*x509.Certificate) error {
	return letIn(s.AuthenticateExpired(chain))
}

// AuthenticateExpired returns the caller of the chain of a certificate that expired at most
// ca.RenewableFor ago. The caller may only renew it. The requirements of Authenticate apply,
// except the validity in time. In addition, no newer key of the device may have been used, so
// that a replaced key cannot be renewed.
func (s *Callers) AuthenticateExpired(chain []*x509.Certificate) (access.Caller, error) {
	who, err := s.verifyExpired(chain)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := s.callerOf(who)
	if err != nil {
		return access.Caller{}, err
	}
	dev, _ := s.dir.Device(who.deviceID)
	if key, _ := dev.key(who.key, s.dir.now()); !key.EndsAt.IsZero() {
		return access.Caller{}, replaced(who.deviceID)
	}
	return c, nil
}

// NoteUse records a request from an address with a certificate whose key the peer has proved to
// hold. The first use of a key ends the previous keys; the use of an ended key is an alarm.
// Authenticate decides whether the request proceeds.
func (s *Callers) NoteUse(ctx context.Context, chain []*x509.Certificate, from string) error {
	who, dev, known := s.bearer(chain)
	if !known {
		return nil // unknown owner: Authenticate returns the error
	}
	return s.keys.use(ctx, dev, who, from)
}

// bearer returns the owner of a presented certificate, valid or expired, and the owner's
// device.
func (s *Callers) bearer(chain []*x509.Certificate) (presented, Device, bool) {
	who, err := s.verify(chain)
	if err != nil {
		who, err = s.verifyExpired(chain)
	}
	if err != nil {
		return presented{}, Device{}, false
	}
	dev, err := s.dir.live(who.deviceID)
	return who, dev, err == nil
}

// localBack is the remedy for the local operator.
const localBack = "Stop palyrad, run `palyrad operator bundle local --out DIR` on its host, and start it again."

// AuthenticateHost returns the local operator as a caller without its key, for a connection
// whose process the system identifies. It requires the local device, and the caller is not
// paired.
func (s *Callers) AuthenticateHost() (access.Caller, error) {
	dev, found := s.dir.localDevice()
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the local operator does not exist")
	}
	if dir := s.local.bundleDir.Load(); dir != nil {
		if kept, err := KeptIn(*dir); kept != nil || err != nil {
			return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the local operator's key is protected from programs with its uid, so the uid alone is not sufficient here").
				WithRemedy("Omit --socket, so that the key is used; `palyra key show` shows its location.")
		}
	}
	dev, err := s.dir.live(dev.ID)
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

// SessionCaller returns the caller of a session that a device started, with the current state
// of the device's member, and without requiring a key of the device. A session that the local
// operator started over the socket requires that the socket still gives access. The owner of
// the session sets Surface and Paired.
func (s *Callers) SessionCaller(deviceID string, over access.Transport) (access.Caller, error) {
	if over == access.TransportSocket {
		c, err := s.AuthenticateHost()
		if err == nil && c.DeviceID != deviceID {
			err = reason.Errorf(reason.Unauthenticated, "the local operator now has another device")
		}
		return c, err
	}
	dev, err := s.dir.live(deviceID)
	if err != nil {
		return access.Caller{}, err
	}
	c, err := s.caller(dev)
	c.Paired = false
	return c, err
}

// AuthenticateAgent returns an agent of the local operator as the caller of its hook, for a
// connection whose process belongs to the local operator according to the system. The caller
// may only report the agent's actions, which is less than any process with that uid can do.
func (s *Callers) AuthenticateAgent(name string) (access.Caller, error) {
	dev, found := s.dir.localDevice()
	if !found {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the local operator does not exist")
	}
	dev, err := s.dir.live(dev.ID)
	if err != nil {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%w", err).WithRemedy(localBack)
	}
	m, ok := s.dir.registry.Active(access.Agent(name))
	switch {
	case !ok && m.AwaitsConsent:
		return access.Caller{}, m.Waiting()
	case !ok || m.Owner != dev.Principal:
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s has no agent %q that a hook without a token could act for", dev.Principal, name).
			WithRemedy("Create it with `palyra hook install %s`, or give the hook a token.", name)
	}
	c := m.Caller(dev.ID)
	c.Transport = access.TransportSocket
	c.Token = &access.TokenBounds{Scopes: []access.Permission{access.PermHookReport}, Creator: m.Owner}
	return c, nil
}

// Stands returns the reason why a caller with a device, or over the local operator's socket,
// must stop. Its device was revoked, its member was disabled, or its permissions were reduced.
// Its errors have the reason Unauthenticated. Replacing a key does not end the work started
// with it.
func (s *Callers) Stands(c access.Caller) error {
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

// callerOf returns the caller of the device whose certificate is presented.
func (s *Callers) callerOf(who presented) (access.Caller, error) {
	dev, err := s.dir.live(who.deviceID)
	if err != nil {
		return access.Caller{}, err
	}
	if !s.keys.holdsKey(dev, who) {
		return access.Caller{}, replaced(who.deviceID)
	}
	return s.caller(dev)
}

// caller returns the caller that a device represents, regardless of how the device authenticated.
func (s *Callers) caller(dev Device) (access.Caller, error) {
	m, ok := s.dir.registry.Active(dev.Principal)
	if !ok && m.AwaitsConsent {
		return access.Caller{}, m.Waiting()
	}
	if !ok {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s of device %s may not act: it or its owner is disabled or was removed", dev.Principal, dev.ID)
	}
	c := m.Caller(dev.ID)
	c.Paired = true
	return c, nil
}

// verify verifies a certificate, or reuses the result for the same bytes: verifying two
// signatures costs far more than hashing the bytes. It checks the validity in time against the
// clock in both cases.
func (s *Callers) verify(chain []*x509.Certificate) (presented, error) {
	if len(chain) == 0 {
		return presented{}, reason.Errorf(reason.Unauthenticated, "the client certificate is missing")
	}
	key := sha256.Sum256(chain[0].Raw)
	now := s.dir.now()
	s.mu.RLock()
	known, ok := s.verified[key]
	s.mu.RUnlock()
	if ok && !now.Before(known.from) && !now.After(known.to) {
		return presented{known.deviceID, known.key, chain[0]}, nil
	}
	id, err := s.authority.VerifyDevice(chain)
	if err != nil {
		return presented{}, err
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

// verifyExpired is verify for a certificate that expired at most ca.RenewableFor ago.
func (s *Callers) verifyExpired(chain []*x509.Certificate) (presented, error) {
	id, err := s.authority.VerifyExpired(chain)
	if err != nil {
		return presented{}, err
	}
	return shownBy(id, chain), nil
}

func shownBy(id string, chain []*x509.Certificate) presented {
	return presented{id, canonical.Digest(chain[0].RawSubjectPublicKeyInfo), chain[0]}
}
