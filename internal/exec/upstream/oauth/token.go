package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

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
	client, err := s.client(g.TokenEndpoint)
	if err != nil {
		return err
	}
	form.Set("resource", g.Resource)
	token, err := post(ctx, client, g, g.TokenEndpoint, secret, form)
	var answer *oauth2.RetrieveError
	var unreached *url.Error
	switch {
	case errors.As(err, &answer) && answer.Response.StatusCode >= http.StatusInternalServerError:
		return away(g.Server, "its authorization server", errors.New("answers "+answer.Response.Status))
	case errors.As(err, &answer) && codeForm.MatchString(answer.ErrorCode):
		return &declinedError{answer.ErrorCode}
	case errors.As(err, &unreached):
		return away(g.Server, "its authorization server cannot be reached", err)
	case err != nil && answer == nil:
		return away(g.Server, "its authorization server", errors.New("does not answer with a token"))
	case err != nil || !strings.EqualFold(token.TokenType, "Bearer"):
		return &declinedError{"without a token of the type Bearer"}
	case strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &declinedError{"with a token that is not a valid header value"}
	}
	g.Access, g.Refresh, g.Expires = token.AccessToken, token.RefreshToken, time.Time{}
	if scope, _ := token.Extra("scope").(string); scope != "" {
		g.Scope = scope
	}
	if left := time.Until(token.Expiry); left > 0 && left < mostLife {
		g.Expires = s.use.Now().Add(left).UTC()
	}
	return nil
}

// mostLife is the longest accepted lifetime of a token.
const mostLife = 10 * 365 * 24 * time.Hour

// post sends a form to an endpoint of the authorization server, as the client of a grant. A refresh
// token of the form that the response does not replace is part of the result.
//
// Package clientcredentials accepts every type of grant. The refresh of oauth2.Config cannot name
// the resource (RFC 8707).
func post(ctx context.Context, client *http.Client, g *grant, endpoint, secret string, form url.Values) (*oauth2.Token, error) {
	c := clientcredentials.Config{ClientID: g.ClientID, ClientSecret: secret, TokenURL: endpoint, EndpointParams: form, AuthStyle: oauth2.AuthStyleInParams}
	if secret != "" && g.Basic {
		c.AuthStyle = oauth2.AuthStyleInHeader
	}
	return c.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
}

// register registers the client of a grant with one redirect URL, at an authorization server with
// open registration (RFC 7591).
func (s *Service) register(ctx context.Context, g *grant, endpoint, redirect string) error {
	client, err := s.client(endpoint)
	if err != nil {
		return err
	}
	made, err := oauthex.RegisterClient(ctx, endpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "Palyra", ApplicationType: "native",
	}, client)
	var unreached *url.Error
	if errors.As(err, &unreached) {
		return away(g.Server, "its authorization server cannot be reached", err)
	}
	if err != nil { // it repeats the response
		return reason.Errorf(reason.LoginUnavailable, "the authorization server of %s refused to register the gateway", g.Server).
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
