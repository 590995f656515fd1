// Package console is the server side of the web console: logins, sessions, restrictions for
// browsers, and the files. The API behind it is the API of every client (package api), with the
// session's caller.
//
// A session has two halves. The browser sends the cookie with every request to the console's host.
// Cookies ignore ports, so another server with the same name on this machine could receive it. The
// page stores the secret, in storage of one origin, and sends it in a header. Neither half is valid
// alone, and both are stored here as digests.
//
// Sessions exist in memory only. Over plain HTTP a stored session would be usable by a process
// that takes palyrad's port, and a new login is one command. A login at an identity provider
// uses package login with a key that lives for the login, so that only one package verifies
// providers.
package console

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Members returns the current caller of a session's member. identity.Callers implements it.
type Members interface {
	// SessionCaller returns the caller of a device's member, without a key of the device. Its
	// errors have the reason Unauthenticated.
	SessionCaller(device string, over access.Transport) (access.Caller, error)
}

// Config holds the dependencies of a Console. An empty Origin disables the console; otherwise
// all fields except Hosts, Provider, LogOut and Now are required.
type Config struct {
	// Origin is the canonical origin of the console, as browsers write it.
	Origin string
	// Hosts reports whether a name is another name of the gateway; requests to it are redirected.
	Hosts   func(name string) bool
	Members Members
	// Journal makes events durable.
	Journal func(ctx context.Context, drafts ...event.Draft) error
	// Allow takes one login from the rate limit of an address.
	Allow func(address string) (ok bool, retryAfter time.Duration)
	// Refused is called for each refused login and each cross-site request.
	Refused func(ctx context.Context, source, route string, code reason.Code)
	// Idle is the idle timeout of a session, Life its maximum duration.
	Idle, Life time.Duration
	Files      Files
	// Provider authenticates users at the identity provider, nil for none. LogOut ends the login
	// that a device represents.
	Provider Provider
	LogOut   func(ctx context.Context, device string) error
	Log      *slog.Logger
	Now      func() time.Time
}

// Console logs browsers in and serves them. It is safe for concurrent use.
type Console struct {
	Config
	Sessions *Sessions
	links    *links
	page     *pages

	// mu guards gone.
	mu sync.Mutex
	// gone has the browsers that are at the identity provider, by their cookie.
	gone map[digest]*away
}

// New returns a console without sessions: they are kept in memory, and end with the process.
func New(c Config) (*Console, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Origin == "" {
		return newConsole(c), nil
	}
	if c.Members == nil || c.Journal == nil || c.Allow == nil || c.Refused == nil || c.Files == nil || c.Log == nil || c.Idle <= 0 || c.Life <= 0 {
		return nil, errors.New("creating the console: a required setting is missing")
	}
	origin, err := ParseOrigin(c.Origin)
	if err != nil {
		return nil, err
	}
	c.Origin = origin.String()
	one := newConsole(c)
	one.page, err = readPages(c.Files)
	return one, err
}

func newConsole(c Config) *Console {
	return &Console{
		Config: c, gone: map[digest]*away{},
		links:    &links{origin: c.Origin, journal: c.Journal, now: c.Now, pending: map[digest]*waiting{}},
		Sessions: &Sessions{members: c.Members, journal: c.Journal, idle: c.Idle, life: c.Life, log: c.Log, now: c.Now, open: newSessionsInMemory()},
	}
}

// off returns an error if the console is disabled.
func (c *Console) off() error {
	if c.Origin != "" {
		return nil
	}
	return reason.Errorf(reason.LoginUnavailable, "this gateway has no console: listen.console is empty").
		WithRemedy("Set listen.console = \"127.0.0.1:7145\" in palyra.toml and restart palyrad.")
}

// EndDevice ends the pending links and the sessions of a device, and returns the number of
// sessions.
func (c *Console) EndDevice(ctx context.Context, device string, by access.Principal, why string) int {
	c.links.drop(device)
	return c.Sessions.endDevice(ctx, device, by, why)
}
