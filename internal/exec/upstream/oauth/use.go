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

// header is where tokens travel (RFC 6750, section 2.1).
const header = "Authorization"

// Ready says early that a call cannot run because nobody logged in. It returns the
// reference of the login that the call is to use.
func (s *Service) Ready(ctx context.Context, c access.Caller, server declared.Server) (vault.Ref, error) {
	ref, err := s.of(c, server)
	if err != nil {
		return ref, err
	}
	_, err = s.vault.Get(ctx, vault.Gateway(), ref)
	if reason.Of(err) == reason.NotFound {
		return ref, required(server, "nobody logged in there for this caller")
	}
	return ref, err
}

// of is the login that a call uses: that of the user who answers for it.
func (s *Service) of(c access.Caller, server declared.Server) (vault.Ref, error) {
	if s.vault == nil {
		return vault.Ref{}, reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s needs a login, which is kept there", server.Name)
	}
	if server.OAuth.Shared {
		return vault.LoginRef(server.Name, access.Principal{})
	}
	who := c.OnBehalfOf
	if who.IsZero() {
		who = c.Principal
	}
	if who.Kind != access.KindUser {
		return vault.Ref{}, required(server, "people log in there, and "+who.String()+" is none")
	}
	return vault.LoginRef(server.Name, who)
}

// required is what somebody is told who has to log in.
func required(server declared.Server, why string) *reason.Error {
	return reason.Errorf(reason.UpstreamLogin, "the upstream server %s needs a login: %s", server.Name, why).
		WithRemedy("Run `palyra mcp login %s`, and make the call again.", server.Name).WithField("server", server.Name)
}

// Rejected is the error of a server that does not take the token that it was shown.
func Rejected(server declared.Server) error {
	return required(server, "it does not take the token that it was shown").WithField("rejected", "true")
}

// IsRejected reports whether an error is Rejected.
func IsRejected(err error) bool {
	var known *reason.Error
	return errors.As(err, &known) && known.Code == reason.UpstreamLogin && known.Fields["rejected"] == "true"
}

// Login is a login that one call uses, until End.
type Login struct {
	// Token stands for the token. It goes to the server alone.
	Token egress.Secret

	mu     sync.Mutex
	handle *vault.Handle
}

// Use lends a call the login of the user who answers for it, and renews its token when
// that is about to end. rejected is the version of a login whose token the server did
// not take, 0 for none: that one is renewed. Policy is asked whether the caller may
// use it.
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
		return nil, required(server, "nobody logged in there for this caller")
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

// usable refuses a login of another URL or another authorization server: the server
// was declared anew since.
func usable(server declared.Server, g grant) error {
	if g.URL != server.URL || server.OAuth.Issuer != "" && !resource.SameIssuer(server.OAuth.Issuer, g.Issuer) {
		return required(server, "the login was for "+g.URL+" by "+g.Issuer+", before the server was declared anew")
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

// End gives the login back.
func (l *Login) End(ctx context.Context) error { return l.handle.End(context.WithoutCancel(ctx)) }

// turn waits until nobody else reads or renews a login.
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

// read leases a login to a call. The caller has its turn, and ends the lease.
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
		return grant{}, nil, errors.Join(reason.Errorf(reason.SecretUnreadable, "%s is no login", ref), h.End(context.WithoutCancel(ctx)))
	}
	return g, h, nil
}

// renew gets a new token for a login and keeps it. The caller has the login's turn.
func (s *Service) renew(ctx context.Context, c access.Caller, server declared.Server, ref vault.Ref, g grant, call string) error {
	if err := usable(server, g); err != nil {
		return err
	}
	if g.Refresh == "" {
		return required(server, "its token ended, and cannot be renewed")
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
		return required(server, "it ended ("+declined.Error()+")")
	}
	if err != nil {
		return reason.Errorf(reason.UpstreamUnavailable, "the login at the upstream server %s cannot be renewed now: %w", server.Name, err)
	}
	return s.keep(ctx, ref, g)
}

// secret is that of the gateway as a client there, "" for a public one.
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
