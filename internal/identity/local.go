package identity

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/keptkey"
)

// LocalConfig has the directory of the local operator's bundle, and the address and name of its
// server.
type LocalConfig struct {
	Dir        string
	Address    string
	ServerName string
}

// LocalOperator creates the local operator and keeps its certificate valid.
type LocalOperator struct {
	dir          *Directory
	members      *Members
	certificates *Certificates
	authority    *ca.Authority
	// bundleDir is the directory of its bundle; nil before Start.
	bundleDir atomic.Pointer[string]
}

// Start creates the local operator on the first start (the member user:local with the role
// owner, and its device) and reissues its certificate on every start. It issues nothing if the
// local device was revoked, or if its member is disabled. It also issues nothing if the bundle
// names a key stored elsewhere that is not the device's key. ok is then false, and the remedy
// is `palyrad operator bundle local`.
func (s *LocalOperator) Start(ctx context.Context, c LocalConfig) (dev Device, ok bool, err error) {
	dev, ok, err = s.start(ctx, c)
	if err != nil {
		return Device{}, false, fmt.Errorf("preparing the local operator: %w", err)
	}
	return dev, ok, nil
}

func (s *LocalOperator) start(ctx context.Context, c LocalConfig) (_ Device, _ bool, err error) {
	// The files are locked first, because the holder of their lock may be waiting for a
	// certificate.
	release, err := lockLocal(ctx, c.Dir)
	if err != nil {
		return Device{}, false, err
	}
	defer func() { err = errors.Join(err, release()) }()
	s.dir.changing.Lock()
	defer s.dir.changing.Unlock()
	dev, found := s.dir.localDevice()
	_, member := s.dir.registry.Get(Local())
	if found || member {
		dev, err := s.dir.live(dev.ID)
		if _, active := s.dir.registry.Active(dev.Principal); err != nil || !active {
			return dev, false, nil
		}
	}
	s.bundleDir.Store(&c.Dir)
	if kept, err := KeptIn(c.Dir); kept != nil || err != nil {
		return s.startKept(ctx, c, dev, kept)
	}
	key, err := NewKey()
	if err != nil {
		return Device{}, false, err
	}
	csr, err := Request(key)
	if err != nil {
		return Device{}, false, err
	}
	cert, dev, err := s.certifyLocal(ctx, dev, csr)
	if err != nil {
		return Device{}, false, err
	}
	return dev, true, WriteBundle(c.Dir, Bundle{
		Root: s.authority.Root(), Chain: cert.Chain, Key: key, Address: c.Address, ServerName: c.ServerName,
	})
}

// startKept reissues the certificate of the local device for its existing key, whose private
// half palyrad cannot access. It creates no new key, because an operator who moved the key does
// not want a key in a file.
func (s *LocalOperator) startKept(ctx context.Context, c LocalConfig, dev Device, kept *keptkey.Kept) (Device, bool, error) {
	if kept == nil || dev.ID == "" || dev.KeySHA256 != canonical.Digest(kept.PublicKey) {
		return dev, false, nil
	}
	cert, err := s.authority.ReissueDevice(kept.Public(), dev.ID)
	if err == nil {
		cert, err = s.certificates.recertified(ctx, dev, cert)
	}
	if err != nil {
		return Device{}, false, err
	}
	dev, _ = s.dir.Device(dev.ID)
	return dev, true, WriteBundle(c.Dir, Bundle{
		Root: s.authority.Root(), Chain: cert.Chain, Kept: kept, Address: c.Address, ServerName: c.ServerName,
	})
}

// lockLocal prevents palyrad and a command that renews the local operator's bundle from writing it
// at the same time.
func lockLocal(ctx context.Context, dir string) (release func() error, err error) {
	if err := keyfile.MakeDir(dir); err != nil {
		return nil, fmt.Errorf("making credential bundle: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	return lockBundle(ctx, dir, true)
}

// lockPatience is how long palyrad waits for a command that renews the bundle.
const lockPatience = 30 * time.Second

// certifyLocal renews the local device, or admits it if it does not exist. It writes the event
// of the authority's creation with the first admission, because the authority is created before
// the journal can be opened.
func (s *LocalOperator) certifyLocal(ctx context.Context, dev Device, csr []byte) (ca.Issued, Device, error) {
	if dev.ID != "" {
		cert, err := s.certificates.renew(ctx, dev.ID, "", csr)
		if err != nil {
			return ca.Issued{}, Device{}, err
		}
		dev, _ = s.dir.Device(dev.ID)
		return cert, dev, nil
	}
	var d drafts
	d.authority(Daemon(), s.authority)
	m := access.Member{Principal: Local(), Roles: []access.Role{access.RoleOwner}, CreatedAt: s.dir.instant()}
	dev, err := s.dir.newDevice(m.Principal, m.Principal.Name)
	if err != nil {
		return ca.Issued{}, Device{}, err
	}
	dev.Local = true
	a, err := s.members.admit(ctx, Daemon(), m, dev, csr, &d)
	return a.Certificate, a.Device, err
}

// upkeep is the interval at which Run checks for due work.
const upkeep = time.Hour

// Run renews certificates until ctx ends: the authority's own, and the local operator's when
// two thirds of its lifetime are over. Run calls renewed after each round, so that a notary can
// use its renewed certificate; renewed may be nil. Errors are passed to failed and do not end
// Run, because certificates in use remain valid for hours.
func (s *LocalOperator) Run(ctx context.Context, c LocalConfig, renewed func() error, failed func(error)) error {
	tick := time.NewTicker(upkeep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.maintain(ctx, c, renewed); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

func (s *LocalOperator) maintain(ctx context.Context, c LocalConfig, renewed func() error) error {
	if err := s.authority.Maintain(); err != nil {
		return err
	}
	dev, found := s.dir.localDevice()
	if found && s.dir.now().After(dev.NotAfter.Add(-ca.LeafLife/3)) {
		if _, _, err := s.Start(ctx, c); err != nil {
			return err
		}
	}
	if renewed == nil {
		return nil
	}
	return renewed()
}

// LocalKey returns the location of the key of the local operator's device, whose bundle is in dir.
func LocalKey(dir string) ca.KeyPlace { return ca.FilePlace("operator", dir, keyName) }
