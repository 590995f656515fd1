// Package oauth logs the gateway in at the authorization servers of upstream MCP
// servers, as the authorization part of MCP says: discovery by RFC 9728 and RFC 8414, a
// code flow with PKCE (RFC 7636) whose redirect ends on the person's own machine (RFC
// 8252), tokens for one resource (RFC 8707), and the issuer of each answer compared
// (RFC 9207). The tokens stay in the vault. What a client of the gateway shows the
// gateway is another thing, and goes nowhere.
package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/resource"
	"palyra/internal/vault"
)

const (
	// life is how long a login waits for its person, mostOpen how many do at a time, and
	// mostOfOne how many of one member.
	life      = 10 * time.Minute
	mostOpen  = 256
	mostOfOne = 8
	// askTime bounds what one request of a person may wait for others.
	askTime = 40 * time.Second
	// early is how long before its end a token is renewed.
	early = 30 * time.Second
)

// Vault keeps the logins (vault.Service).
type Vault interface {
	Put(ctx context.Context, caller access.Caller, ref vault.Ref, value []byte, set vault.Metadata) (vault.Secret, error)
	Get(ctx context.Context, caller access.Caller, ref vault.Ref) (vault.Secret, error)
	Remove(ctx context.Context, caller access.Caller, ref vault.Ref) error
	Lease(ctx context.Context, b vault.Borrower, q vault.LeaseRequest) (*vault.Handle, error)
}

// Config is what a Service works with. Vault, May and Journal are required.
type Config struct {
	// May asks policy whether somebody has a permission.
	May func(by access.Caller, p access.Permission) error
	// Journal keeps an event.
	Journal func(ctx context.Context, e event.Draft) error
	// Denied are the hosts that no login may lead to, and Gateway is where the gateway
	// itself listens, which none may lead to either.
	Denied  []egress.Rule
	Gateway *egress.Gateway
	// Roots, Resolver and Interfaces are the system's when nil, Now the clock.
	Roots      *x509.CertPool
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	Now        func() time.Time
}

// Service has the logins. It is safe for concurrent use.
type Service struct {
	use   Config
	vault Vault

	mu sync.Mutex
	// open are the logins that wait for their person, by their ids.
	open map[string]*waiting
	// turns let one goroutine at a time read and renew a login.
	turns map[vault.Ref]chan struct{}
}

// New returns a Service without a vault; Serve gives it one.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{use: c, open: map[string]*waiting{}, turns: map[vault.Ref]chan struct{}{}}
}

// Serve has the service keep its logins in a vault. It is called before any call is.
func (s *Service) Serve(v Vault) { s.vault = v }

// waiting is a login that waits for its person.
type waiting struct {
	by              access.Principal
	ref             vault.Ref
	server          declared.Server
	redirect        string
	state, verifier string
	// answers says that the authorization server names itself in every answer.
	answers bool
	grant   grant
	ends    time.Time
}

// Begun is a login that waits for its person.
type Begun struct {
	ID        string
	ExpiresAt time.Time
	// AuthorizationURL is for the person's browser, and Issuer whose page it is.
	AuthorizationURL, Issuer string
}

// Begin begins a login at the authorization server of an upstream server, for the
// person who asks, or for everybody where the server is declared so. redirect is where
// the browser goes on the person's machine.
func (s *Service) Begin(ctx context.Context, by access.Caller, server declared.Server, redirect string) (Begun, error) {
	ref, err := s.whose(by, server)
	if err != nil {
		return Begun{}, err
	}
	if err := login.CheckRedirect(redirect); err != nil {
		return Begun{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f, err := s.discover(ctx, server)
	if err != nil {
		return Begun{}, err
	}
	w := &waiting{by: by.Principal, ref: ref, server: server, redirect: redirect, state: rand.Text(), verifier: rand.Text() + rand.Text(), answers: f.meta.AuthorizationResponseIssParameterSupported}
	w.grant = grant{
		Server: server.Name, URL: server.URL, Issuer: f.meta.Issuer, Resource: f.resource, TokenEndpoint: f.meta.TokenEndpoint, Revocation: f.meta.RevocationEndpoint,
		Scope: strings.Join(scopes(server, f), " "), By: by.Principal.String(),
	}
	if err := s.identify(ctx, w, f.meta); err != nil {
		return Begun{}, err
	}
	page, err := w.page(f.meta.AuthorizationEndpoint)
	if err != nil {
		return Begun{}, err
	}
	id, err := s.add(w)
	return Begun{ID: id, ExpiresAt: w.ends, AuthorizationURL: page, Issuer: w.grant.Issuer}, err
}

// whose is where the login of a caller is kept.
func (s *Service) whose(by access.Caller, server declared.Server) (vault.Ref, error) {
	switch {
	case server.OAuth == nil:
		return vault.Ref{}, reason.Errorf(reason.InvalidInput, "the upstream server %s was not declared with a login", server.Name).
			WithRemedy("Servers with a login are added with `palyra mcp add NAME --url URL --oauth`.")
	case by.Principal.Kind != access.KindUser:
		return vault.Ref{}, reason.Errorf(reason.PermissionDenied, "people log in at upstream servers, and %s is none", by.Principal)
	case server.OAuth.Shared:
		// Everybody would act there as whoever logs in.
		if err := s.use.May(by, access.PermUpstreamWrite); err != nil {
			return vault.Ref{}, err
		}
		return vault.LoginRef(server.Name, access.Principal{})
	}
	return vault.LoginRef(server.Name, by.Principal)
}

// scopes are those that are asked for.
func scopes(server declared.Server, f found) []string {
	list := slices.Clone(server.OAuth.Scopes)
	if len(list) == 0 && declared.ValidScopes(f.scopes) {
		list = slices.Clone(f.scopes)
	}
	// What gives a refresh token at providers of OpenID Connect.
	if offline := "offline_access"; slices.Contains(f.meta.ScopesSupported, offline) && !slices.Contains(list, offline) {
		list = append(list, offline)
	}
	return list
}

// identify settles who the gateway is at the authorization server.
func (s *Service) identify(ctx context.Context, w *waiting, m oauthex.AuthServerMeta) error {
	o := w.server.OAuth
	switch {
	case o.Document() && !m.ClientIDMetadataDocumentSupported:
		return reason.Errorf(reason.LoginUnavailable, "the authorization server %s takes no client metadata documents", m.Issuer).
			WithRemedy("Have an operator add the server with the id of a registered client, or with none so that the gateway registers itself.")
	case o.ClientID != "":
		w.grant.ClientID, w.grant.SecretRef, w.grant.Basic = o.ClientID, o.ClientSecret, basic(m.TokenEndpointAuthMethodsSupported)
		return nil
	case m.RegistrationEndpoint != "":
		return s.register(ctx, &w.grant, m.RegistrationEndpoint, w.redirect)
	}
	return reason.Errorf(reason.LoginUnavailable, "the authorization server %s registers no clients by itself", m.Issuer).
		WithRemedy("Register a client there for the redirect http://127.0.0.1/callback, and have an operator add the server with --oauth-client ID.")
}

// page is where the person logs in.
func (w *waiting) page(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": w.grant.ClientID, "redirect_uri": w.redirect, "state": w.state, "resource": w.grant.Resource,
		"code_challenge": challengeOf(w.verifier), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if w.grant.Scope != "" {
		q.Set("scope", w.grant.Scope)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// challengeOf is S256 of RFC 7636, section 4.2.
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// add has a login wait.
func (s *Service) add(w *waiting) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, of := s.use.Now(), 0
	for id, other := range s.open {
		if !now.Before(other.ends) {
			delete(s.open, id)
		} else if other.by == w.by {
			of++
		}
	}
	if of >= mostOfOne || len(s.open) >= mostOpen {
		return "", reason.Errorf(reason.RateLimited, "too many logins at upstream servers wait for their person").WithField("retry_after", life.String()).
			WithRemedy("Finish one that waits, or try again in %s.", life)
	}
	id := rand.Text()
	w.ends = now.Add(life)
	s.open[id] = w
	return id, nil
}

// take removes a login of somebody: whatever comes of it, it is answered once.
func (s *Service) take(id string, by access.Principal) *waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.open[id]
	if w == nil || w.by != by {
		return nil // somebody else's stays
	}
	delete(s.open, id)
	if !s.use.Now().Before(w.ends) {
		return nil
	}
	return w
}

// Answer is what the browser came back with.
type Answer struct {
	ID, State, Code string
	// Issuer is "iss" of RFC 9207, "" where there was none.
	Issuer string
}

// Done is a login that holds.
type Done struct {
	Server, Issuer, Scope string
	// Ref is where the vault keeps it.
	Ref vault.Ref
	// ExpiresAt is when its token ends, zero if nobody said; Renews says that the
	// gateway renews it then.
	ExpiresAt time.Time
	Renews    bool
}

// Complete ends a login. find has the server as it is declared now.
func (s *Service) Complete(ctx context.Context, by access.Caller, a Answer, find func(name string) (declared.Server, error)) (Done, error) {
	w := s.take(a.ID, by.Principal)
	if w == nil {
		return Done{}, reason.Errorf(reason.LoginRefused, "there is no such login: it ended, was answered before, or is somebody else's")
	}
	g := w.grant
	switch {
	case a.State == "" || subtle.ConstantTimeCompare([]byte(w.state), []byte(a.State)) != 1:
		return Done{}, reason.Errorf(reason.LoginRefused, "the answer is not of this login")
	case a.Issuer != "" && !resource.SameIssuer(a.Issuer, g.Issuer), a.Issuer == "" && w.answers:
		return Done{}, reason.Errorf(reason.LoginRefused, "the answer does not come from the authorization server %s: it names %q", g.Issuer, text.Ellipsis(a.Issuer, mostText)).
			WithRemedy("Another server may have tried to get the code. Nothing was sent to anybody; log in again.")
	case a.Code == "":
		return Done{}, reason.Errorf(reason.LoginRefused, "the answer has no code")
	}
	now, err := find(w.server.Name)
	if err != nil {
		return Done{}, err
	}
	if err := same(now, w.server); err != nil {
		return Done{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.secret(ctx, by, g, a.ID)
	if err != nil {
		return Done{}, err
	}
	err = s.token(ctx, &g, secret, url.Values{"grant_type": {"authorization_code"}, "code": {a.Code}, "redirect_uri": {w.redirect}, "code_verifier": {w.verifier}})
	var declined *declinedError
	if errors.As(err, &declined) {
		return Done{}, reason.Errorf(reason.LoginRefused, "the login at the upstream server %s failed: %w", w.server.Name, err)
	}
	if err != nil {
		return Done{}, err
	}
	g.At = s.use.Now().UTC()
	turn, err := s.turn(ctx, w.ref)
	if err != nil {
		return Done{}, err
	}
	defer turn()
	if err := s.keep(ctx, w.ref, g); err != nil {
		return Done{}, err
	}
	done := Done{Server: g.Server, Issuer: g.Issuer, Scope: g.Scope, Ref: w.ref, ExpiresAt: g.Expires, Renews: g.Refresh != ""}
	return done, s.note(ctx, event.UpstreamLoggedIn, by, g, w.ref)
}

// same refuses a server that was declared anew while somebody logged in.
func same(now, then declared.Server) error {
	a, err := now.Digest()
	if err != nil {
		return err
	}
	b, err := then.Digest()
	if err != nil {
		return err
	}
	if a != b {
		return reason.Errorf(reason.LoginRefused, "the upstream server %s was declared anew meanwhile", then.Name).WithRemedy("Log in again.")
	}
	return nil
}

// logged is the payload of event.UpstreamLoggedIn and event.UpstreamLoggedOut.
type logged struct {
	Server string `json:"server"`
	Issuer string `json:"issuer,omitempty"`
	Scope  string `json:"scope,omitempty"`
	// Secret is the reference of what the vault keeps.
	Secret string `json:"secret"`
}

func (s *Service) note(ctx context.Context, code event.Code, by access.Caller, g grant, ref vault.Ref) error {
	draft, err := event.DraftOf(code, by.Principal.String(), g.Server, logged{g.Server, g.Issuer, g.Scope, ref.Name()})
	if err != nil {
		return err
	}
	if draft, err = draft.By(access.DeviceOf(ctx)); err != nil {
		return err
	}
	return s.use.Journal(context.WithoutCancel(ctx), draft)
}

// keep puts a login into the vault.
func (s *Service) keep(ctx context.Context, ref vault.Ref, g grant) error {
	value, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("encoding a login: %w", err)
	}
	defer clear(value)
	note := "login at the upstream server " + g.Server
	_, err = s.vault.Put(context.WithoutCancel(ctx), vault.Gateway(), ref, value, vault.Metadata{Note: &note})
	return err
}

// Logout forgets a login, and has the authorization server end it where that can (RFC
// 7009). A server that does not answer keeps nobody from logging out.
func (s *Service) Logout(ctx context.Context, by access.Caller, server declared.Server) error {
	ref, err := s.whose(by, server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	turn, err := s.turn(ctx, ref)
	if err != nil {
		return err
	}
	defer turn()
	g, h, err := s.read(ctx, by, ref, rand.Text())
	if reason.Of(err) == reason.NotFound {
		return reason.Errorf(reason.NotFound, "there is no login at the upstream server %s", server.Name)
	}
	if err == nil {
		s.revoke(ctx, by, g)
		err = h.End(context.WithoutCancel(ctx))
	}
	// One that cannot be read is forgotten all the same.
	if removed := s.vault.Remove(ctx, vault.Gateway(), ref); removed != nil {
		return errors.Join(err, removed)
	}
	g.Server = server.Name
	return s.note(ctx, event.UpstreamLoggedOut, by, g, ref)
}

func (s *Service) revoke(ctx context.Context, by access.Caller, g grant) {
	token := g.Refresh
	if token == "" {
		token = g.Access
	}
	secret, err := s.secret(ctx, by, g, rand.Text())
	if g.Revocation == "" || err != nil {
		return
	}
	if res, err := s.post(ctx, &g, g.Revocation, secret, url.Values{"token": {token}}); err == nil {
		_ = res.Body.Close()
	}
}
