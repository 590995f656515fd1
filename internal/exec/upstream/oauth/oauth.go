// Package oauth logs the gateway in at the authorization servers of upstream MCP servers, as
// the authorization chapter of MCP requires. Discovery follows RFC 9728 and RFC 8414. The code
// flow uses PKCE (RFC 7636) and redirects to the user's own machine (RFC 8252). Tokens are for
// one resource (RFC 8707), and the issuer of each answer is checked (RFC 9207). The tokens stay
// in the vault. The credentials that clients present to the gateway are separate and are never
// forwarded.
//
// It shares the HTTP client and the check of redirects with package login, which discards tokens,
// while this package keeps them. The OAuth client of the MCP SDK is not used: it keeps tokens in
// memory, dials by itself, and repeats texts of authorization servers in errors.
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
	// life is how long a login waits for the user. mostOpen limits the waiting logins of all
	// members, and mostOfOne the waiting logins of one member.
	life      = 10 * time.Minute
	mostOpen  = 256
	mostOfOne = 8
	// askTime is the timeout for the remote requests of one user request.
	askTime = 40 * time.Second
	// early is how long before its expiry a token is renewed.
	early = 30 * time.Second
)

// Vault stores the logins (vault.Service).
type Vault interface {
	Put(ctx context.Context, caller access.Caller, ref vault.Ref, value []byte, set vault.Metadata) (vault.Secret, error)
	Get(ctx context.Context, caller access.Caller, ref vault.Ref) (vault.Secret, error)
	Remove(ctx context.Context, caller access.Caller, ref vault.Ref) error
	Lease(ctx context.Context, b vault.Borrower, q vault.LeaseRequest) (*vault.Handle, error)
}

// Config configures a Service. Vault, May and Journal are required.
type Config struct {
	// May checks by policy whether a caller has a permission.
	May func(by access.Caller, p access.Permission) error
	// Journal records an event.
	Journal func(ctx context.Context, e event.Draft) error
	// Denied are the hosts that no login may lead to. Gateway is the listener of the gateway,
	// which is denied as well.
	Denied  []egress.Rule
	Gateway *egress.Gateway
	// Roots, Resolver and Interfaces default to the system's, and Now to the system clock.
	Roots      *x509.CertPool
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	Now        func() time.Time
}

// Service manages the logins. It is safe for concurrent use.
type Service struct {
	use   Config
	vault Vault

	mu sync.Mutex
	// open holds the logins that wait for the user, by id.
	open map[string]*waiting
	// turns serializes reading and renewing of each login.
	turns map[vault.Ref]chan struct{}
}

// New returns a Service without a vault; Serve sets it.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{use: c, open: map[string]*waiting{}, turns: map[vault.Ref]chan struct{}{}}
}

// Serve sets the vault for the logins. It must be called before any other method.
func (s *Service) Serve(v Vault) { s.vault = v }

// waiting is a login that waits for the user.
type waiting struct {
	by              access.Principal
	ref             vault.Ref
	server          declared.Server
	redirect        string
	state, verifier string
	// answers reports that the authorization server includes its issuer in every answer.
	answers bool
	grant   grant
	ends    time.Time
}

// PendingLogin describes a login that waits for the user.
type PendingLogin struct {
	ID        string
	ExpiresAt time.Time
	// AuthorizationURL is the page to open in the user's browser, and Issuer its authorization
	// server.
	AuthorizationURL, Issuer string
}

// Begin starts a login at the authorization server of an upstream server. The login is for the
// caller, or for all members if the server is declared with a shared login. redirect is the
// redirect URL on the user's machine.
func (s *Service) Begin(ctx context.Context, by access.Caller, server declared.Server, redirect string) (PendingLogin, error) {
	ref, err := s.whose(by, server)
	if err != nil {
		return PendingLogin{}, err
	}
	if err := login.CheckRedirect(redirect); err != nil {
		return PendingLogin{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f, err := s.discover(ctx, server)
	if err != nil {
		return PendingLogin{}, err
	}
	w := &waiting{by: by.Principal, ref: ref, server: server, redirect: redirect, state: rand.Text(), verifier: rand.Text() + rand.Text(), answers: f.meta.AuthorizationResponseIssParameterSupported}
	w.grant = grant{
		Server: server.Name, URL: server.URL, Issuer: f.meta.Issuer, Resource: f.resource, TokenEndpoint: f.meta.TokenEndpoint, Revocation: f.meta.RevocationEndpoint,
		Scope: strings.Join(scopes(server, f), " "), By: by.Principal.String(),
	}
	if err := s.identify(ctx, w, f.meta); err != nil {
		return PendingLogin{}, err
	}
	page, err := w.page(f.meta.AuthorizationEndpoint)
	if err != nil {
		return PendingLogin{}, err
	}
	id, err := s.add(w)
	return PendingLogin{ID: id, ExpiresAt: w.ends, AuthorizationURL: page, Issuer: w.grant.Issuer}, err
}

// whose returns the vault reference for the login of a caller.
func (s *Service) whose(by access.Caller, server declared.Server) (vault.Ref, error) {
	switch {
	case server.OAuth == nil:
		return vault.Ref{}, reason.Errorf(reason.InvalidInput, "the upstream server %s is declared without a login", server.Name).
			WithRemedy("Add a server with a login by `palyra mcp add NAME --url URL --oauth`.")
	case by.Principal.Kind != access.KindUser:
		return vault.Ref{}, reason.Errorf(reason.PermissionDenied, "only users can log in at upstream servers, and %s is not a user", by.Principal)
	case server.OAuth.Shared:
		// All members would act there with the identity of this user.
		if err := s.use.May(by, access.PermUpstreamWrite); err != nil {
			return vault.Ref{}, err
		}
		return vault.LoginRef(server.Name, access.Principal{})
	}
	return vault.LoginRef(server.Name, by.Principal)
}

// scopes returns the scopes to request.
func scopes(server declared.Server, f found) []string {
	list := slices.Clone(server.OAuth.Scopes)
	if len(list) == 0 && declared.ValidScopes(f.scopes) {
		list = slices.Clone(f.scopes)
	}
	// OpenID Connect providers issue a refresh token only with this scope.
	if offline := "offline_access"; slices.Contains(f.meta.ScopesSupported, offline) && !slices.Contains(list, offline) {
		list = append(list, offline)
	}
	return list
}

// identify determines the gateway's client id at the authorization server.
func (s *Service) identify(ctx context.Context, w *waiting, m oauthex.AuthServerMeta) error {
	o := w.server.OAuth
	switch {
	case o.Document() && !m.ClientIDMetadataDocumentSupported:
		return reason.Errorf(reason.LoginUnavailable, "the authorization server %s does not accept client metadata documents", m.Issuer).
			WithRemedy("Have an operator add the server with the id of a registered client, or without an id so that the gateway registers itself.")
	case o.ClientID != "":
		w.grant.ClientID, w.grant.SecretRef, w.grant.Basic = o.ClientID, o.ClientSecret, basic(m.TokenEndpointAuthMethodsSupported)
		return nil
	case m.RegistrationEndpoint != "":
		return s.register(ctx, &w.grant, m.RegistrationEndpoint, w.redirect)
	}
	return reason.Errorf(reason.LoginUnavailable, "the authorization server %s does not support dynamic client registration", m.Issuer).
		WithRemedy("Register a client there for the redirect http://127.0.0.1/callback, and have an operator add the server with --oauth-client ID.")
}

// page returns the URL of the login page.
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

// challengeOf returns the S256 challenge of RFC 7636, section 4.2.
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// add stores a waiting login and returns its id.
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
		return "", reason.Errorf(reason.RateLimited, "too many logins at upstream servers are waiting").WithField("retry_after", life.String()).
			WithRemedy("Finish a waiting login, or try again in %s.", life)
	}
	id := rand.Text()
	w.ends = now.Add(life)
	s.open[id] = w
	return id, nil
}

// take removes and returns a login of a principal. Each login is answered only once, whatever the
// result.
func (s *Service) take(id string, by access.Principal) *waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.open[id]
	if w == nil || w.by != by {
		return nil // a login of another principal stays
	}
	delete(s.open, id)
	if !s.use.Now().Before(w.ends) {
		return nil
	}
	return w
}

// Answer is the browser's answer from the authorization server.
type Answer struct {
	ID, State, Code string
	// Issuer is the parameter "iss" of RFC 9207, "" if it is missing.
	Issuer string
}

// CompletedLogin describes a completed login.
type CompletedLogin struct {
	Server, Issuer, Scope string
	// Ref is its reference in the vault.
	Ref vault.Ref
	// ExpiresAt is the expiry of its token, zero if unknown. Renews reports that the gateway
	// renews the token then.
	ExpiresAt time.Time
	Renews    bool
}

// Complete finishes a login. find returns the current declaration of the server.
func (s *Service) Complete(ctx context.Context, by access.Caller, a Answer, find func(name string) (declared.Server, error)) (CompletedLogin, error) {
	w := s.take(a.ID, by.Principal)
	if w == nil {
		return CompletedLogin{}, reason.Errorf(reason.LoginRefused, "the login does not exist: it expired, was answered before, or belongs to another user")
	}
	g := w.grant
	switch {
	case a.State == "" || subtle.ConstantTimeCompare([]byte(w.state), []byte(a.State)) != 1:
		return CompletedLogin{}, reason.Errorf(reason.LoginRefused, "the answer does not belong to this login")
	case a.Issuer != "" && !resource.SameIssuer(a.Issuer, g.Issuer), a.Issuer == "" && w.answers:
		return CompletedLogin{}, reason.Errorf(reason.LoginRefused, "the answer does not come from the authorization server %s: its issuer is %q", g.Issuer, text.Ellipsis(a.Issuer, mostText)).
			WithRemedy("Another server may have tried to obtain the code. Nothing was sent; log in again.")
	case a.Code == "":
		return CompletedLogin{}, reason.Errorf(reason.LoginRefused, "the answer has no code")
	}
	now, err := find(w.server.Name)
	if err != nil {
		return CompletedLogin{}, err
	}
	if err := same(now, w.server); err != nil {
		return CompletedLogin{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	secret, err := s.secret(ctx, by, g, a.ID)
	if err != nil {
		return CompletedLogin{}, err
	}
	err = s.token(ctx, &g, secret, url.Values{"grant_type": {"authorization_code"}, "code": {a.Code}, "redirect_uri": {w.redirect}, "code_verifier": {w.verifier}})
	var declined *declinedError
	if errors.As(err, &declined) {
		return CompletedLogin{}, reason.Errorf(reason.LoginRefused, "the login at the upstream server %s failed: %w", w.server.Name, err)
	}
	if err != nil {
		return CompletedLogin{}, err
	}
	g.At = s.use.Now().UTC()
	turn, err := s.turn(ctx, w.ref)
	if err != nil {
		return CompletedLogin{}, err
	}
	defer turn()
	if err := s.keep(ctx, w.ref, g); err != nil {
		return CompletedLogin{}, err
	}
	done := CompletedLogin{Server: g.Server, Issuer: g.Issuer, Scope: g.Scope, Ref: w.ref, ExpiresAt: g.Expires, Renews: g.Refresh != ""}
	return done, s.note(ctx, event.UpstreamLoggedIn, by, g, w.ref)
}

// same returns an error for a server that was declared again during the login.
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
		return reason.Errorf(reason.LoginRefused, "the upstream server %s was declared again during the login", then.Name).WithRemedy("Log in again.")
	}
	return nil
}

// logged is the payload of event.UpstreamLoggedIn and event.UpstreamLoggedOut.
type logged struct {
	Server string `json:"server"`
	Issuer string `json:"issuer,omitempty"`
	Scope  string `json:"scope,omitempty"`
	// Secret is the vault reference of the login.
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

// keep stores a login in the vault.
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

// Logout deletes a login and revokes it at the authorization server if that is supported (RFC
// 7009). An unreachable authorization server does not prevent the logout.
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
		return reason.Errorf(reason.NotFound, "no login exists at the upstream server %s", server.Name)
	}
	if err == nil {
		s.revoke(ctx, by, g)
		err = h.End(context.WithoutCancel(ctx))
	}
	// An unreadable login is removed as well.
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
