package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/identity/ca"
)

// ErrConflict means that another request changed a member or device meanwhile.
var ErrConflict = errors.New("it was changed meanwhile")

// Daemon returns the principal of palyrad itself. It is the actor of commands on palyrad's host,
// such as `palyrad operator add`.
func Daemon() access.Principal { return access.Principal{Kind: access.KindService, Name: "palyrad"} }

// Config holds the dependencies of a Service. All fields except Now and Rand are required.
type Config struct {
	Authority *ca.Authority
	Store     Store
	Registry  *access.Registry
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Now is the clock; nil means time.Now. Rand generates device ids; nil means crypto/rand.
	Now  func() time.Time
	Rand io.Reader
}

// Service has the services of members and devices. They share one Directory, and are safe for
// concurrent use.
type Service struct {
	Directory     *Directory
	OpenWork      *OpenWork
	Members       *Members
	Confirmations *Confirmations
	Consents      *Consents
	Devices       *DeviceAdmin
	Certificates  *Certificates
	Keys          *Keys
	PresenceKeys  *PresenceKeys
	Logins        *Logins
	Pairings      *Pairings
	Local         *LocalOperator
	Callers       *Callers
	Notices       *Notices
}

// New loads the devices.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Authority == nil || c.Store == nil || c.Registry == nil {
		return nil, errors.New("making identity service: authority, store and registry are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	dir, err := newDirectory(ctx, c)
	if err != nil {
		return nil, err
	}
	work := &OpenWork{dir: dir}
	members := &Members{dir: dir, work: work, authority: c.Authority, guard: c.Guard}
	certificates := &Certificates{dir: dir, authority: c.Authority, renewals: map[string]renewals{}}
	keys := &Keys{dir: dir, lastUse: map[string]time.Time{}, changed: make(chan struct{}, 1)}
	local := &LocalOperator{dir: dir, members: members, certificates: certificates, authority: c.Authority}
	return &Service{
		Directory: dir, OpenWork: work, Members: members, Certificates: certificates, Keys: keys, Local: local,
		Confirmations: &Confirmations{dir: dir, guard: c.Guard},
		Consents:      &Consents{dir: dir, work: work},
		Devices:       &DeviceAdmin{dir: dir, work: work, authority: c.Authority, guard: c.Guard},
		PresenceKeys:  &PresenceKeys{dir: dir},
		Logins:        &Logins{dir: dir, work: work, authority: c.Authority},
		Pairings:      &Pairings{dir: dir, authority: c.Authority, certificates: certificates},
		Callers:       &Callers{dir: dir, keys: keys, local: local, authority: c.Authority, verified: map[[32]byte]verifiedLeaf{}},
		Notices:       &Notices{dir: dir},
	}, nil
}
