// Package login logs in people whom an OpenID Connect provider authenticates. The gateway is
// the provider's client: it exchanges the authorization codes, and no token ever leaves the
// daemon. A person receives a certificate for a key that their machine created before, so that
// a stolen code or login is useless.
//
// A login is a code flow with PKCE (RFC 7636) whose redirect ends on the person's own machine
// (RFC 8252, section 7.3), or a device flow (RFC 8628). Pending logins are kept only in memory,
// in limited number, and each is answered once.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// Timeout limits how long one request of a person may wait for the provider.
const Timeout = 20 * time.Second

// Members receives completed logins (identity.Logins).
type Members interface {
	LogIn(ctx context.Context, l identity.Login) (identity.LoggedIn, error)
	EndLogins(ctx context.Context, issuer, subject, why string) error
}

// Mapping assigns roles to the members of a group of the provider.
type Mapping struct {
	Group string
	Roles []access.Role
}

// Config holds the dependencies of a Service. Without an Issuer, the Service refuses every
// login. With an Issuer, all fields except Secret, UsernameDomain, MaxAge, DeviceFlow and Now
// are required.
type Config struct {
	// Issuer identifies the provider, as in its ID tokens. ClientID identifies the gateway at the
	// provider.
	Issuer, ClientID string
	// Secret returns the client's secret; nil means a public client. It is called for each use, so
	// that a new secret takes effect at once.
	Secret func() (string, error)
	Scopes []string
	// UsernameClaim contains the member's name; UsernameDomain is its required suffix after an '@',
	// which is removed.
	UsernameClaim, UsernameDomain string
	GroupsClaim                   string
	Groups                        []Mapping
	// Algorithms are the permitted signature algorithms of ID tokens, all asymmetric.
	Algorithms []string
	// DeviceFlow also permits people to confirm on another device.
	DeviceFlow bool
	// MaxAge limits the age of a person's authentication at the provider; 0 means no limit.
	MaxAge time.Duration
	// Session is the duration of a login, at most ca.LeafLife.
	Session time.Duration
	Members Members
	// Refused is called for each refusal. source is an address, or a person authenticated by the
	// provider.
	Refused func(ctx context.Context, source string)
	Log     *slog.Logger
	Now     func() time.Time
}

// Service starts and completes logins. It is safe for concurrent use.
type Service struct {
	Config
	client    *http.Client
	open      *table
	lockout   *limit.Lockout
	discovery *discovery
}

// backoff locks out an address whose logins are refused.
var backoff = limit.Backoff{Free: 10, First: time.Second, Longest: 5 * time.Minute, Forget: 15 * time.Minute}

// New returns the service. It does not query the provider, so that a gateway can start without
// it.
func New(c Config) (*Service, error) {
	c.Now = now(c.Now)
	lockout, err := limit.NewLockout(backoff)
	if err != nil {
		return nil, err
	}
	client := NewClient((&net.Dialer{Timeout: answerTimeout}).DialContext, nil)
	s := &Service{Config: c, client: client, open: newTable(c.Now), lockout: lockout, discovery: &discovery{
		issuer: c.Issuer, client: client, hasSecret: c.Secret != nil, log: c.Log, now: c.Now, turn: make(chan struct{}, 1),
	}}
	if c.Issuer == "" {
		return s, nil
	}
	switch {
	case c.ClientID == "" || c.UsernameClaim == "" || c.GroupsClaim == "" || len(c.Algorithms) == 0 || c.Members == nil || c.Refused == nil || c.Log == nil:
		return nil, errors.New("making the login service: a required setting is missing")
	case c.Session <= 0 || c.Session > ca.LeafLife:
		return nil, fmt.Errorf("making the login service: sessions of %s", c.Session)
	}
	for _, a := range c.Algorithms {
		if !Asymmetric(a) {
			return nil, fmt.Errorf("making the login service: %s is not an asymmetric signature", a)
		}
	}
	return s, nil
}

func now(given func() time.Time) func() time.Time {
	if given == nil {
		return time.Now
	}
	return given
}

// Request is a request to start a login.
type Request struct {
	// CSR is a certificate request of the session's key, DER.
	CSR []byte
	// Redirect is the address to which the provider redirects the person's browser; "" requests a
	// device flow.
	Redirect string
	// ToConsole means that Redirect is the callback of the gateway's own console, which keeps the
	// session's key, and not a loopback address. No client of the API sets it.
	ToConsole bool
	// Address is the source address of the request.
	Address string
}

// Begun is a started login that waits for the person.
type Begun struct {
	ID        string
	ExpiresAt time.Time
	// AuthorizationURL is for the person's browser.
	AuthorizationURL string
	// UserCode is the code that the person types at VerificationURI, or that
	// VerificationURIComplete contains. Interval is the recommended polling interval.
	UserCode, VerificationURI, VerificationURIComplete string
	Interval                                           time.Duration
}

// Begin starts a login.
func (s *Service) Begin(ctx context.Context, r Request) (Begun, error) {
	if err := s.ready(r.Address); err != nil {
		return Begun{}, err
	}
	if len(r.CSR) > maxCSR {
		return Begun{}, reason.Errorf(reason.InputTooLarge, "the certificate request has %d bytes, the limit is %d", len(r.CSR), maxCSR)
	}
	key, err := ca.RequestKey(r.CSR)
	if err != nil {
		return Begun{}, err
	}
	if r.Redirect != "" {
		if err := CheckRedirect(r.Redirect); err != nil && !r.ToConsole {
			return Begun{}, err
		}
	} else if !s.DeviceFlow {
		return Begun{}, reason.Errorf(reason.LoginRefused, "this gateway does not support confirmation on another device").
			WithRemedy("Log in with a browser on this machine: `palyra login` without --device. An administrator can set oidc.device_flow = true.")
	}
	w := &waiting{address: limit.Address(r.Address), csr: r.CSR, key: key, redirect: r.Redirect}
	if err := s.open.add(w); err != nil {
		return Begun{}, err
	}
	begun, err := s.begin(ctx, w)
	if err != nil {
		s.open.drop(w)
	}
	return begun, err
}

func (s *Service) begin(ctx context.Context, w *waiting) (Begun, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p, err := s.discovery.get(ctx)
	if err != nil {
		return Begun{}, err
	}
	if w.redirect == "" {
		return s.beginDevice(ctx, p, w)
	}
	// The values that bind the login were created with it, and remain in the table.
	return Begun{ID: w.id, ExpiresAt: w.ends, AuthorizationURL: s.oauth(p, w.redirect, "").AuthCodeURL(w.state, s.authorization(w)...)}, nil
}

// Answer is the provider's redirect of the person's browser.
type Answer struct {
	ID, State, Code string
	// Issuer is "iss" of RFC 9207, or "" if the provider does not send it.
	Issuer string
	// Proof is identity.Prove of identity.LoginProof by the session's key.
	Proof   []byte
	Address string
}

// Complete completes a login with a browser. A login is answered once: a second answer always
// fails.
func (s *Service) Complete(ctx context.Context, a Answer) (identity.LoggedIn, error) {
	if err := s.ready(a.Address); err != nil {
		return identity.LoggedIn{}, err
	}
	w := s.open.find(a.ID)
	if w == nil || w.redirect == "" || !identity.Proven(w.key, identity.LoginProof(a.ID, a.Code), a.Proof) {
		return identity.LoggedIn{}, s.refuse(ctx, a.Address, a.Address, noLogin())
	}
	if !s.open.take(w) {
		return identity.LoggedIn{}, s.refuse(ctx, a.Address, a.Address, noLogin())
	}
	if !same(w.state, a.State) || a.Issuer != "" && a.Issuer != s.Issuer {
		return identity.LoggedIn{}, s.refuse(ctx, a.Address, a.Address,
			reason.Errorf(reason.LoginRefused, "the answer is not of this login"))
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p, err := s.discovery.get(ctx)
	if err != nil {
		return identity.LoggedIn{}, err
	}
	token, err := s.exchange(ctx, p, w, a.Code)
	if err != nil {
		return identity.LoggedIn{}, s.noted(ctx, a.Address, a.Address, err)
	}
	return s.admit(ctx, p, w, a.Address, token)
}

// noLogin returns the same error for a login that never existed, has ended or was already
// answered, and for a proof by another key.
func noLogin() error {
	return reason.Errorf(reason.LoginRefused, "login not found: it ended, was answered before, or belongs to another person")
}

// admit logs in the person identified by a token response.
func (s *Service) admit(ctx context.Context, p *provider, w *waiting, address string, token *oauth2.Token) (identity.LoggedIn, error) {
	raw, _ := token.Extra("id_token").(string)
	who, err := s.verify(ctx, p, w.nonce, raw)
	if err != nil {
		return identity.LoggedIn{}, s.noted(ctx, address, address, err)
	}
	roles, err := s.roles(who)
	if err != nil {
		return identity.LoggedIn{}, errors.Join(s.noted(ctx, address, who.String(), err),
			s.Members.EndLogins(ctx, s.Issuer, who.subject, "the identity provider names no group that has a role here"))
	}
	in, err := s.Members.LogIn(ctx, identity.Login{
		Issuer: s.Issuer, Subject: who.subject, Name: who.name, Roles: roles, Request: w.csr, Life: s.Session,
	})
	if err != nil {
		return identity.LoggedIn{}, s.noted(ctx, address, who.String(), err)
	}
	s.lockout.Succeeded(limit.Address(address))
	s.Log.InfoContext(ctx, "a person logged in", slog.String("principal", in.Member.Principal.String()), slog.String("device", in.Device.ID))
	return in, nil
}

// ready refuses all logins without a provider, and logins from a locked address.
func (s *Service) ready(address string) error {
	if s.Issuer == "" {
		return reason.Errorf(reason.LoginUnavailable, "this gateway has no identity provider").
			WithRemedy("Use another kind of credential, or ask an administrator to set [oidc] in palyra.toml and restart palyrad.")
	}
	if wait := s.lockout.Locked(limit.Address(address)); wait > 0 {
		return reason.Errorf(reason.RateLimited, "too many logins from here were refused; try again in %s", wait.Round(time.Second)).
			WithField("retry_after", wait.String())
	}
	return nil
}

// noted counts an error if it is a refusal. An unavailable provider does not count against the
// caller.
func (s *Service) noted(ctx context.Context, address, source string, err error) error {
	switch reason.Of(err) {
	case reason.LoginUnavailable, reason.JournalUnavailable, reason.Internal:
		return err
	}
	return s.refuse(ctx, address, source, err)
}

func (s *Service) refuse(ctx context.Context, address, source string, err error) error {
	s.lockout.Failed(limit.Address(address))
	s.Refused(ctx, cmp.Or(source, "unknown"))
	return err
}

// Lockout returns the addresses that failed too often, for monitoring.
func (s *Service) Lockout() *limit.Lockout { return s.lockout }
