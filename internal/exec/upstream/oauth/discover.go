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

// mostText is the maximum length, in bytes, of a foreign text quoted in a message.
const mostText = 200

// client returns an HTTP client that reaches only the hosts of the URLs, through the egress
// rules.
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

// found is the result of discovery.
type found struct {
	// resource is the resource indicator to request tokens for (RFC 8707), and scopes the scopes
	// that the resource names.
	resource string
	scopes   []string
	meta     oauthex.AuthServerMeta
}

// discover finds the authorization server of an upstream server (RFC 9728) and its metadata (RFC
// 8414). The upstream server is not trusted: it can direct the gateway only to its own host and
// to the issuer that an operator declared.
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

// greeting is a request that a server answers only to authenticated clients.
const greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"palyra","version":"1"}}}`

// challenge sends a request without a token and returns the parameters of WWW-Authenticate. It
// returns none if the server does not require authentication.
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
	// An unreadable header counts as absent: it is only a hint, and the metadata that it points
	// to is validated.
	list, _ := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	for _, c := range list {
		if strings.EqualFold(c.Scheme, "Bearer") {
			return c.Params, nil
		}
	}
	return nil, nil
}

// protectedResource reads the metadata of a resource, from the URL in the challenge and from the
// well-known URLs of the server. It returns nil if the server has no metadata.
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
			return nil, fmt.Errorf("its metadata is at %s, which is not on its own host", text.Ellipsis(named, mostText))
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
			return nil, fmt.Errorf("its metadata is for the resource %s, which does not cover the server", text.Ellipsis(about.Resource, mostText))
		}
		return &about, nil
	}
	return nil, nil
}

// covers reports whether a resource covers the server: it is the server's URL or a prefix of its
// path. A token for any other resource would belong to another service.
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

// chooseIssuer returns the declared issuer, or one on the server's own host.
func chooseIssuer(server declared.Server, about *oauthex.ProtectedResourceMetadata) (string, error) {
	u, err := url.Parse(server.URL)
	if err != nil {
		return "", err
	}
	want := server.OAuth.Issuer
	if about == nil || len(about.AuthorizationServers) == 0 {
		// Servers from before RFC 9728 are their own authorization server.
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
		return "", reason.Errorf(reason.LoginUnavailable, "the upstream server %s names the authorization servers %s, but %s was declared", server.Name, named, want).
			WithRemedy("If a named server is correct, have an operator add the upstream server again with that issuer (--oauth-issuer).")
	}
	return "", reason.Errorf(reason.LoginUnavailable, "the upstream server %s names the authorization server %s, which is on another host and was not declared", server.Name, named).
		WithRemedy("If it belongs to the upstream server, have an operator remove the server and add it again with --oauth-issuer %s.", text.Ellipsis(about.AuthorizationServers[0], mostText))
}

// issuer reads the metadata of an authorization server. It tries the URLs and their order from
// the authorization chapter of MCP.
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
	return meta, away(server.Name, "its authorization server publishes no metadata", errors.Join(errs...))
}

// checkIssuer returns an error for an authorization server that has another issuer (RFC 8414,
// section 3.3), does not support PKCE, or has endpoints without TLS.
func checkIssuer(server, issuer string, m oauthex.AuthServerMeta) error {
	if !resource.SameIssuer(m.Issuer, issuer) {
		return away(server, "its authorization server", fmt.Errorf("reports the issuer %s, but its URL is %s", text.Ellipsis(m.Issuer, mostText), issuer))
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return away(server, "its authorization server", errors.New("does not support PKCE with S256, without which a stolen code could be used"))
	}
	for name, endpoint := range map[string]string{
		"authorization_endpoint": m.AuthorizationEndpoint, "token_endpoint": m.TokenEndpoint, "registration_endpoint": m.RegistrationEndpoint, "revocation_endpoint": m.RevocationEndpoint,
	} {
		if endpoint == "" && (name == "registration_endpoint" || name == "revocation_endpoint") {
			continue
		}
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			return away(server, "its authorization server", fmt.Errorf("has the %s %s, which is not an https URL", name, text.Ellipsis(endpoint, mostText)))
		}
	}
	return nil
}

// fetch reads a metadata document.
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
		return fmt.Errorf("%s is not a JSON metadata document", at)
	}
	return nil
}

// away returns the error for a login that cannot start or continue.
func away(server, what string, err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	return reason.Errorf(reason.LoginUnavailable, "cannot log in at the upstream server %s: %s: %s", server, what, text.Ellipsis(err.Error(), 2*mostText)).
		WithRemedy("Check the declared URL and issuer (`palyra mcp show %s`), or contact the operator of the upstream server.", server)
}
