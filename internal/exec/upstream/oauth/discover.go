package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/resource"
)

// mostText bounds what a message repeats of others' words, in bytes.
const mostText = 200

// client reaches the hosts of some URLs and nothing else, through the egress rules.
func (s *Service) client(urls ...string) (*http.Client, error) {
	allow, err := resource.Hosts(urls...)
	if err != nil {
		return nil, err
	}
	dialer := &egress.Dialer{
		Rules: egress.Rules{Allow: allow, Deny: s.use.Denied, Gateway: s.use.Gateway}, Resolver: s.use.Resolver, Interfaces: s.use.Interfaces,
	}
	return login.NewClient(dialer.DialContext, s.use.Roots), nil
}

// found is what discovery found.
type found struct {
	// resource is what tokens are asked for (RFC 8707), and scopes what it names.
	resource string
	scopes   []string
	meta     oauthex.AuthServerMeta
}

// discover finds the authorization server of an upstream server (RFC 9728) and what it
// says of itself (RFC 8414). The upstream server is a stranger: it sends the gateway
// nowhere but to its own host and to the issuer that an operator declared.
func (s *Service) discover(ctx context.Context, server declared.Server) (found, error) {
	f := found{resource: server.URL}
	client, err := s.client(server.URL)
	if err != nil {
		return f, err
	}
	challenge, err := s.challenge(ctx, client, server)
	if err != nil {
		return f, err
	}
	f.scopes = strings.Fields(challenge["scope"])
	about, err := protectedResource(ctx, client, server.URL, challenge["resource_metadata"])
	if err != nil {
		return f, away(server.Name, "its metadata cannot be used", err)
	}
	issuer, err := chooseIssuer(server, about)
	if err != nil {
		return f, err
	}
	if about != nil {
		f.resource = about.Resource
		if len(f.scopes) == 0 {
			f.scopes = about.ScopesSupported
		}
	}
	f.meta, err = s.issuer(ctx, server, issuer)
	return f, err
}

// greeting is a request that a server answers only to those who are logged in.
const greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"palyra","version":"1"}}}`

// challenge is what the server asks for when it is asked without a token: the
// parameters of WWW-Authenticate, none where it asks for nothing.
func (s *Service) challenge(ctx context.Context, client *http.Client, server declared.Server) (map[string]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, bytes.NewReader([]byte(greeting)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := client.Do(r)
	if err != nil {
		return nil, away(server.Name, "it cannot be reached", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		return nil, nil
	}
	// A header that cannot be read is none: it is a hint, and what it leads to is checked.
	list, _ := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	for _, c := range list {
		if strings.EqualFold(c.Scheme, "Bearer") {
			return c.Params, nil
		}
	}
	return nil, nil
}

// protectedResource reads the metadata of a resource: where the challenge says, and at
// the well-known places of the server. nil means that it has none.
func protectedResource(ctx context.Context, client *http.Client, server, named string) (*oauthex.ProtectedResourceMetadata, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	origin := u.Scheme + "://" + u.Host
	places := []string{origin + wellKnown}
	if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
		places = slices.Insert(places, 0, origin+wellKnown+path)
	}
	if named != "" {
		if where, err := url.Parse(named); err != nil || where.Scheme != u.Scheme || !sameHost(where, u) || where.User != nil {
			return nil, fmt.Errorf("it says that its metadata is at %s, which is not on its own host", text.Ellipsis(named, mostText))
		}
		places = []string{named}
	}
	for _, place := range places {
		var about oauthex.ProtectedResourceMetadata
		switch err := fetch(ctx, client, place, &about); {
		case err != nil && named != "":
			return nil, err
		case err != nil:
			continue
		case !covers(about.Resource, u):
			return nil, fmt.Errorf("it says that tokens are for %s, which is another resource", text.Ellipsis(about.Resource, mostText))
		}
		return &about, nil
	}
	return nil, nil
}

// covers reports whether a resource is the server: its URL, or the beginning of its
// path. A token for another resource would be somebody else's.
func covers(named string, server *url.URL) bool {
	r, err := url.Parse(named)
	if err != nil || r.Scheme != server.Scheme || !sameHost(r, server) || r.User != nil || r.RawQuery != "" && r.RawQuery != server.RawQuery || r.Fragment != "" {
		return false
	}
	path := strings.TrimSuffix(r.EscapedPath(), "/")
	own := strings.TrimSuffix(server.EscapedPath(), "/")
	return own == path || strings.HasPrefix(own, path+"/")
}

// sameHost reports whether two URLs of one scheme have the same host and port.
func sameHost(a, b *url.URL) bool {
	return resource.SameIssuer(a.Scheme+"://"+strings.ToLower(a.Host), a.Scheme+"://"+strings.ToLower(b.Host))
}

// chooseIssuer is the declared one, or one on the server's own host.
func chooseIssuer(server declared.Server, about *oauthex.ProtectedResourceMetadata) (string, error) {
	u, err := url.Parse(server.URL)
	if err != nil {
		return "", err
	}
	want := server.OAuth.Issuer
	if about == nil || len(about.AuthorizationServers) == 0 {
		// Servers before RFC 9728 are their own authorization server.
		if want == "" {
			want = u.Scheme + "://" + u.Host
		}
		return want, nil
	}
	for _, issuer := range about.AuthorizationServers {
		i, err := url.Parse(issuer)
		if err == nil && (resource.SameIssuer(issuer, want) || want == "" && i.Scheme == "https" && sameHost(i, u)) {
			return issuer, nil
		}
	}
	named := text.Ellipsis(strings.Join(about.AuthorizationServers, ", "), mostText)
	if want != "" {
		return "", reason.Errorf(reason.LoginUnavailable, "the upstream server %s names the authorization servers %s, and not %s, which was declared", server.Name, named, want).
			WithRemedy("If that is right, have an operator add the server anew with that issuer (--oauth-issuer).")
	}
	return "", reason.Errorf(reason.LoginUnavailable, "the upstream server %s sends to the authorization server %s, which is on another host and was not declared", server.Name, named).
		WithRemedy("If you know it as the server's, have an operator remove the server and add it anew with --oauth-issuer %s.", text.Ellipsis(about.AuthorizationServers[0], mostText))
}

// issuer reads what an authorization server says of itself, at the places that the
// authorization part of MCP lists, in its order.
func (s *Service) issuer(ctx context.Context, server declared.Server, issuer string) (oauthex.AuthServerMeta, error) {
	var meta oauthex.AuthServerMeta
	client, err := s.client(issuer)
	if err != nil {
		return meta, err
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return meta, err
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	var errs []error
	for _, place := range places {
		meta = oauthex.AuthServerMeta{}
		if err := fetch(ctx, client, place, &meta); err != nil {
			errs = append(errs, err)
			continue
		}
		return meta, checkIssuer(server.Name, issuer, meta)
	}
	return meta, away(server.Name, "its authorization server says nothing of itself", errors.Join(errs...))
}

// checkIssuer refuses an authorization server that is another (RFC 8414, section 3.3),
// that does not bind codes to whoever asked for them, or whose endpoints are not TLS.
func checkIssuer(server, issuer string, m oauthex.AuthServerMeta) error {
	if !resource.SameIssuer(m.Issuer, issuer) {
		return away(server, "its authorization server", fmt.Errorf("calls itself %s, and is %s", text.Ellipsis(m.Issuer, mostText), issuer))
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return away(server, "its authorization server", errors.New("has no PKCE with S256, without which somebody else could use the code"))
	}
	for name, endpoint := range map[string]string{
		"authorization_endpoint": m.AuthorizationEndpoint, "token_endpoint": m.TokenEndpoint, "registration_endpoint": m.RegistrationEndpoint, "revocation_endpoint": m.RevocationEndpoint,
	} {
		if endpoint == "" && (name == "registration_endpoint" || name == "revocation_endpoint") {
			continue
		}
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return away(server, "its authorization server", fmt.Errorf("has the %s %s, which is no https URL", name, text.Ellipsis(endpoint, mostText)))
		}
	}
	return nil
}

// fetch reads a document of metadata.
func fetch(ctx context.Context, client *http.Client, at string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if err := canonical.Read(text, into); err != nil {
		return fmt.Errorf("%s is no JSON document of metadata", at)
	}
	return nil
}

// away is the refusal of a login that cannot be begun or gone on with.
func away(server, what string, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	return reason.Errorf(reason.LoginUnavailable, "there is no way to log in at the upstream server %s: %s: %s", server, what, text.Ellipsis(err.Error(), 2*mostText)).
		WithRemedy("Look at the URL and the issuer that were declared (`palyra mcp show %s`), and ask whoever runs the server.", server)
}
