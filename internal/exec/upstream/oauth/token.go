package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// grant is a login as stored in the vault: all data needed to use and renew it.
type grant struct {
	// Server and URL identify the server of the login; a server of that name with another URL
	// cannot use it.
	Server   string `json:"server"`
	URL      string `json:"url"`
	Issuer   string `json:"issuer"`
	Resource string `json:"resource"`
	Scope    string `json:"scope,omitempty"`

	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret,omitempty"`
	// SecretRef is the reference of a registered client's secret, instead of ClientSecret.
	SecretRef string `json:"client_secret_ref,omitempty"`
	// Basic sends the secret in the Authorization header instead of the body.
	Basic         bool   `json:"client_secret_basic,omitempty"`
	TokenEndpoint string `json:"token_endpoint"`
	Revocation    string `json:"revocation_endpoint,omitempty"`

	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token,omitempty"`
	// Expires is zero if the authorization server does not report an expiry.
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// answer is the response of a token endpoint (RFC 6749, section 5).
type answer struct {
	Access    string      `json:"access_token"`
	Type      string      `json:"token_type"`
	Refresh   string      `json:"refresh_token"`
	ExpiresIn json.Number `json:"expires_in"`
	Scope     string      `json:"scope"`
	Error     string      `json:"error"`
}

// declinedError is the error code of a token endpoint. The rest of the response is dropped,
// because it may repeat the request.
type declinedError struct{ code string }

func (e *declinedError) Error() string {
	return "the authorization server answers " + e.code
}

var codeForm = lazyregexp.New(`^[a-z_]{1,40}$`)

// token sends a request to the token endpoint of a grant and stores the result in the grant.
// secret is the client secret, "" for a public client.
func (s *Service) token(ctx context.Context, g *grant, secret string, form url.Values) error {
	form.Set("resource", g.Resource)
	res, err := s.post(ctx, g, g.TokenEndpoint, secret, form)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return away(g.Server, "its authorization server", errors.New("does not complete its response"))
	}
	var a answer
	wrong := canonical.Read(text, &a)
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		return away(g.Server, "its authorization server", errors.New("answers "+res.Status))
	case codeForm.MatchString(a.Error):
		return &declinedError{a.Error}
	case wrong != nil || res.StatusCode != http.StatusOK || a.Access == "" || !strings.EqualFold(a.Type, "Bearer"):
		return &declinedError{"without a token of the type Bearer"}
	case strings.ContainsFunc(a.Access, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &declinedError{"with a token that is not a valid header value"}
	}
	g.Access, g.Expires = a.Access, time.Time{}
	if a.Refresh != "" {
		g.Refresh = a.Refresh
	}
	if a.Scope != "" {
		g.Scope = a.Scope
	}
	if seconds, err := a.ExpiresIn.Int64(); err == nil && seconds > 0 && seconds < int64(mostLife/time.Second) {
		g.Expires = s.use.Now().Add(time.Duration(seconds) * time.Second).UTC()
	}
	return nil
}

// mostLife is the longest accepted lifetime of a token.
const mostLife = 10 * 365 * 24 * time.Hour

// post sends a form to an endpoint of the authorization server, as the client of a grant.
func (s *Service) post(ctx context.Context, g *grant, endpoint, secret string, form url.Values) (*http.Response, error) {
	client, err := s.client(endpoint)
	if err != nil {
		return nil, err
	}
	basic := secret != "" && g.Basic
	if !basic {
		form.Set("client_id", g.ClientID)
		if secret != "" {
			form.Set("client_secret", secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if basic {
		r.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(secret))
	}
	res, err := client.Do(r)
	if err != nil {
		return nil, away(g.Server, "its authorization server cannot be reached", err)
	}
	return res, nil
}

// register registers the client of a grant with one redirect URL, at an authorization server with
// open registration (RFC 7591).
func (s *Service) register(ctx context.Context, g *grant, endpoint, redirect string) error {
	client, err := s.client(endpoint)
	if err != nil {
		return err
	}
	body, err := json.Marshal(oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "Palyra", ApplicationType: "native",
	})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return away(g.Server, "its authorization server cannot be reached", err)
	}
	text, err := io.ReadAll(res.Body)
	var made oauthex.ClientRegistrationResponse
	if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusOK || canonical.Read(text, &made) != nil || made.ClientID == "" {
		return reason.Errorf(reason.LoginUnavailable, "the authorization server of %s refused to register the gateway: it answers %s", g.Server, res.Status).
			WithRemedy("Register a client there for the redirect http://127.0.0.1/callback, and have an operator add the server with --oauth-client ID.")
	}
	g.ClientID, g.ClientSecret = made.ClientID, made.ClientSecret
	g.Basic = made.TokenEndpointAuthMethod == "client_secret_basic" || made.TokenEndpointAuthMethod == ""
	return nil
}

// basic reports whether an authorization server accepts a secret in the header. By RFC 8414 that
// is the default.
func basic(methods []string) bool {
	return len(methods) == 0 || slices.Contains(methods, "client_secret_basic")
}
