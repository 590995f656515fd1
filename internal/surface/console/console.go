// Package console is the web console's server side: who gets in, sessions and their end,
// what browsers may do with what it serves, and the files. The API behind it is that of
// every client (package rpc), served to a session's caller.
//
// A session has two halves. The cookie is sent by the browser with every request to the
// console's host; cookies ignore ports, so another server on this machine under the same
// name could be sent it. The secret is kept by the page, in storage that belongs to one
// origin, and sent in a header. Neither half is good for anything alone, and both are
// kept here as digests.
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

// Members says who a session's member is now (identity.Service).
type Members interface {
	// SessionCaller is the caller that a device's member is, without a key of the device.
	// Its errors have the reason Unauthenticated.
	SessionCaller(device string, over access.Transport) (access.Caller, error)
}

// Config is what a Console is made of. All but Hosts, Provider, LogOut and Now are
// required where Origin is not "", which is for a gateway without a console.
type Config struct {
	// Origin is the one origin of the console, as browsers write it.
	Origin string
	// Hosts reports whether a name is another one of the gateway's, which is redirected.
	Hosts   func(name string) bool
	Members Members
	// Journal makes events durable.
	Journal func(ctx context.Context, drafts ...event.Draft) error
	// Allow spends one login from an address of the rate limit.
	Allow func(address string) (ok bool, retryAfter time.Duration)
	// Refused is told of each refused login and each request of another site.
	Refused func(ctx context.Context, source, route string, code reason.Code)
	// Idle is how long a session lasts without a request, Life how long in any case.
	Idle, Life time.Duration
	Files      Files
	// Provider lets people in for whom the identity provider vouches, nil for none, and
	// LogOut ends the login that a device is.
	Provider Provider
	LogOut   func(ctx context.Context, device string) error
	Log      *slog.Logger
	Now      func() time.Time
}

// Console lets browsers in. It is safe for concurrent use.
type Console struct {
	Config
	page *pages

	mu     sync.Mutex
	logins map[digest]*waiting
	// gone are the browsers at the identity provider, by their cookie.
	gone map[digest]*away
	// byCookie are the sessions that have not ended.
	byCookie map[digest]*session
	ended    []func(Session, *reason.Error)
}

// New makes the console. Nobody is in it: sessions are in memory alone, and end with the
// process.
func New(c Config) (*Console, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	one := &Console{Config: c, logins: map[digest]*waiting{}, gone: map[digest]*away{}, byCookie: map[digest]*session{}}
	if c.Origin == "" {
		return one, nil
	}
	if c.Members == nil || c.Journal == nil || c.Allow == nil || c.Refused == nil || c.Files == nil || c.Log == nil || c.Idle <= 0 || c.Life <= 0 {
		return nil, errors.New("making the console: something is missing")
	}
	origin, err := ParseOrigin(c.Origin)
	if err != nil {
		return nil, err
	}
	one.Origin = origin.String()
	one.page, err = readPages(c.Files)
	return one, err
}

// OnEnd registers a call for every session that ends.
func (c *Console) OnEnd(fn func(s Session, why *reason.Error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, fn)
}

// off refuses where there is no console.
func (c *Console) off() error {
	if c.Origin != "" {
		return nil
	}
	return reason.Errorf(reason.LoginUnavailable, "this gateway has no console: listen.console is empty").
		WithRemedy("Set listen.console = \"127.0.0.1:7145\" in palyra.toml and restart palyrad.")
}
