package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/identity/login/resource"
	"palyra/internal/vault"
)

// header is the header for tokens (RFC 6750, section 2.1).
const header = "Authorization"

// Ready returns an error early if a call lacks its login. Otherwise it returns the reference of
// the login for the call.
func (s *Service) Ready(ctx context.Context, c access.Caller, server declared.Server) (vault.Ref, error) {
	ref, err := s.of(c, server)
	if err != nil {
		return ref, err
	}
	_, err = s.vault.Get(ctx, vault.Gateway(), ref)
	if reason.Of(err) == reason.NotFound {
		return ref, required(server, "this caller is not logged in there")
	}
	return ref, err
}

// of returns the login for a call: the login of the user who is responsible for the caller.
func (s *Service) of(c access.Caller, server declared.Server) (vault.Ref, error) {
	if s.vault == nil {
		return vault.Ref{}, reason.Errorf(reason.NotFound, "this gateway has no vault to store the login that the upstream server %s requires", server.Name)
	}
	if server.OAuth.Shared {
		return vault.LoginRef(server.Name, access.Principal{})
	}
	who := c.OnBehalfOf
	if who.IsZero() {
		who = c.Principal
	}
	if who.Kind != access.KindUser {
		return vault.Ref{}, required(server, "only users can log in there, and "+who.String()+" is not a user")
	}
	return vault.LoginRef(server.Name, who)
}

// required returns the error that asks a user to log in.
func required(server declared.Server, why string) *reason.Error {
	return reason.Errorf(reason.UpstreamLogin, "the upstream server %s requires a login: %s", server.Name, why).
		WithRemedy("Run `palyra mcp login %s`, then repeat the call.", server.Name).WithField("server", server.Name)
}

// Rejected returns the error for a server that rejected the token.
func Rejected(server declared.Server) error {
	return required(server, "the server rejected the token").WithField("rejected", "true")
}

// IsRejected reports whether an error is from Rejected.
func IsRejected(err error) bool {
	var known *reason.Error
	return errors.As(err, &known) && known.Code == reason.UpstreamLogin && known.Fields["rejected"] == "true"
}

// Login is a login lent to one call, until End.
type Login struct {
	// Token is the token, which is sent only to the server.
	Token egress.Secret

	mu     sync.Mutex
	handle *vault.Handle
}

// Use lends a call the login of the user who is responsible for it. It renews the token before it
// expires. rejected is the version of a login whose token the server rejected, 0 for none: that
// login is renewed. Policy decides whether the caller may use the login.
func (s *Service) Use(ctx context.Context, c access.Caller, server declared.Server, call string, rejected int) (*Login, error) {
	ref, err := s.of(c, server)
	if err != nil {
		return nil, err
	}
	turn, err := s.turn(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer turn()
	g, h, err := s.read(ctx, c, ref, call)
	if reason.Of(err) == reason.NotFound {
		return nil, required(server, "this caller is not logged in there")
	}
	if err != nil {
		return nil, err
	}
	if version := h.Lease().Version; version == rejected || !g.Expires.IsZero() && !s.use.Now().Add(early).Before(g.Expires) {
		err = s.renew(ctx, c, server, ref, g, call)
		if err = errors.Join(err, h.End(context.WithoutCancel(ctx))); err != nil {
			return nil, err
		}
		if g, h, err = s.read(ctx, c, ref, call); err != nil {
			return nil, err
		}
	}
	if err := usable(server, g); err != nil {
		return nil, errors.Join(err, h.End(context.WithoutCancel(ctx)))
	}
	_, target, err := server.Target()
	if err != nil {
		return nil, errors.Join(err, h.End(context.WithoutCancel(ctx)))
	}
	hosts, err := egress.ParseRules([]string{target.String()})
	l := &Login{handle: h}
	l.Token = egress.Secret{Name: ref.Name(), Version: h.Lease().Version, Header: header, Hosts: hosts, Source: l}
	return l, err
}

// usable returns an error for a login with another URL or another authorization server: the
// server was declared again after the login.
func usable(server declared.Server, g grant) error {
	if g.URL != server.URL || server.OAuth.Issuer != "" && !resource.SameIssuer(server.OAuth.Issuer, g.Issuer) {
		return required(server, "the login was for "+g.URL+" by "+g.Issuer+", before the server was declared again")
	}
	return nil
}

// Secret implements egress.SecretSource.
func (l *Login) Secret(ctx context.Context, _ string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	value, err := l.handle.Value(ctx, "token of the upstream server")
	if err != nil {
		return nil, err
	}
	defer clear(value)
	var g grant
	if err := json.Unmarshal(value, &g); err != nil {
		return nil, reason.Errorf(reason.SecretUnreadable, "the login cannot be read")
	}
	return []byte(g.Access), nil
}

// End ends the lease of the login.
func (l *Login) End(ctx context.Context) error { return l.handle.End(context.WithoutCancel(ctx)) }

// turn waits until no other goroutine reads or renews a login.
func (s *Service) turn(ctx context.Context, ref vault.Ref) (end func(), err error) {
	s.mu.Lock()
	turn, ok := s.turns[ref]
	if !ok {
		turn = make(chan struct{}, 1)
		s.turns[ref] = turn
	}
	s.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read leases a login to a call. The caller holds its turn and must end the lease.
func (s *Service) read(ctx context.Context, c access.Caller, ref vault.Ref, call string) (grant, *vault.Handle, error) {
	h, err := s.vault.Lease(ctx, vault.Borrower{Caller: c}, vault.LeaseRequest{Ref: ref, Call: call, Until: s.use.Now().Add(vault.MaxLease)})
	if err != nil {
		return grant{}, nil, err
	}
	value, err := h.Value(ctx, "login at an upstream server")
	if err != nil {
		return grant{}, nil, errors.Join(err, h.End(context.WithoutCancel(ctx)))
	}
	defer clear(value)
	var g grant
	if json.Unmarshal(value, &g) != nil {
		return grant{}, nil, errors.Join(reason.Errorf(reason.SecretUnreadable, "%s is not a login", ref), h.End(context.WithoutCancel(ctx)))
	}
	return g, h, nil
}

// renew obtains a new token for a login and stores it. The caller holds the turn of the login.
func (s *Service) renew(ctx context.Context, c access.Caller, server declared.Server, ref vault.Ref, g grant, call string) error {
	if err := usable(server, g); err != nil {
		return err
	}
	if g.Refresh == "" {
		return required(server, "its token expired and cannot be renewed")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.secret(ctx, c, g, call)
	if err != nil {
		return err
	}
	err = s.token(ctx, &g, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}})
	var declined *declinedError
	if errors.As(err, &declined) {
		return required(server, "its token expired ("+declined.Error()+")")
	}
	if err != nil {
		return reason.Errorf(reason.UpstreamUnavailable, "the login at the upstream server %s cannot be renewed now: %w", server.Name, err)
	}
	return s.keep(ctx, ref, g)
}

// secret returns the gateway's client secret at the authorization server, "" for a public
// client.
func (s *Service) secret(ctx context.Context, c access.Caller, g grant, call string) (string, error) {
	if g.SecretRef == "" {
		return g.ClientSecret, nil
	}
	ref, err := vault.ParseRef(g.SecretRef)
	if err != nil {
		return "", err
	}
	h, err := s.vault.Lease(ctx, vault.Borrower{Caller: c}, vault.LeaseRequest{Ref: ref, Call: call, Until: s.use.Now().Add(askTime)})
	if err != nil {
		return "", err
	}
	value, err := h.Value(ctx, "client at "+g.Issuer)
	defer clear(value)
	return string(value), errors.Join(err, h.End(context.WithoutCancel(ctx)))
}
