//go:build unix

package upstream_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// place is an authorization server and an MCP server that accepts its tokens, each on its own
// host, with TLS.
type place struct {
	t         *testing.T
	as, rs    *httptest.Server
	mcp       http.Handler
	mu        sync.Mutex
	codes     map[string]code
	tokens    map[string]string // token to resource
	refreshes map[string]string // refresh token to resource
	// asked are the requests at the token endpoint. shown are the Authorization headers that the
	// MCP server received, and registered the redirects of clients.
	asked      []url.Values
	shown      []string
	registered []string
	revoked    []string
	// basic are the ids and secrets in the headers of requests at the token endpoint and the
	// revocation endpoint.
	basic []string

	// Variations for tests:
	metadata, resource func(map[string]any)
	noRegistration     bool
	noRefresh          bool
	challenge          string
	expiresIn          int
}

type code struct{ challenge, redirect, resource, client string }

func newPlace(t *testing.T) *place {
	p := &place{t: t, codes: map[string]code{}, tokens: map[string]string{}, refreshes: map[string]string{}, expiresIn: 3600}
	s := mcp.NewServer(&mcp.Implementation{Name: "there", Version: "1"}, nil)
	hello(s)
	add(s, "echo", "Says what it was shown.", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("shown: " + r.Extra.Header.Get("Authorization")), nil
	})
	p.mcp = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	p.as = httptest.NewTLSServer(http.HandlerFunc(p.authorize))
	p.rs = httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.as.Close)
	t.Cleanup(p.rs.Close)
	return p
}

func (p *place) url() string { return p.rs.URL + "/mcp" }

func (p *place) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.as.Certificate())
	pool.AddCert(p.rs.Certificate())
	return pool
}

// serve implements the MCP server.
func (p *place) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
		about := map[string]any{"resource": p.url(), "authorization_servers": []string{p.as.URL}, "scopes_supported": []string{"tools"}}
		if p.resource != nil {
			p.resource(about)
		}
		answer(w, 200, about)
		return
	}
	p.mu.Lock()
	shown := r.Header.Get("Authorization")
	p.shown = append(p.shown, shown)
	good := p.tokens[strings.TrimPrefix(shown, "Bearer ")] == p.url()
	p.mu.Unlock()
	if !good {
		challenge := p.challenge
		if challenge == "" {
			challenge = `Bearer resource_metadata="` + p.rs.URL + `/.well-known/oauth-protected-resource/mcp", scope="tools"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.mcp.ServeHTTP(w, r)
}

// authorize implements the authorization server.
func (p *place) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id, secret, ok := r.BasicAuth(); ok {
		p.basic = append(p.basic, id+" "+secret)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		about := map[string]any{
			"issuer": p.as.URL, "authorization_endpoint": p.as.URL + "/authorize", "token_endpoint": p.as.URL + "/token", "revocation_endpoint": p.as.URL + "/revoke",
			"code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"}, "authorization_response_iss_parameter_supported": true,
			"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic"}, "client_id_metadata_document_supported": true,
		}
		if !p.noRegistration {
			about["registration_endpoint"] = p.as.URL + "/register"
		}
		if p.metadata != nil {
			p.metadata(about)
		}
		answer(w, 200, about)
	case "/register":
		var in struct {
			Redirects []string `json:"redirect_uris"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		p.registered = append(p.registered, in.Redirects...)
		answer(w, 201, map[string]any{"client_id": "client-1", "token_endpoint_auth_method": "none"})
	case "/authorize":
		q := r.URL.Query()
		c := "code-" + rand.Text()
		p.codes[c] = code{q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("resource"), q.Get("client_id")}
		answer(w, 200, map[string]any{"code": c, "state": q.Get("state"), "iss": p.as.URL})
	case "/token":
		_ = r.ParseForm()
		p.asked = append(p.asked, r.PostForm)
		p.token(w, r)
	case "/revoke":
		_ = r.ParseForm()
		p.revoked = append(p.revoked, r.PostForm.Get("token"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (p *place) token(w http.ResponseWriter, r *http.Request) {
	f := r.PostForm
	resource := f.Get("resource")
	switch f.Get("grant_type") {
	case "authorization_code":
		c, ok := p.codes[f.Get("code")]
		delete(p.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge || c.redirect != f.Get("redirect_uri") || c.resource != resource {
			answer(w, 400, map[string]any{"error": "invalid_grant", "error_description": "code " + f.Get("code")})
			return
		}
	case "refresh_token":
		if p.refreshes[f.Get("refresh_token")] != resource {
			answer(w, 400, map[string]any{"error": "invalid_grant", "error_description": f.Get("refresh_token")})
			return
		}
		delete(p.refreshes, f.Get("refresh_token"))
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	p.tokens[access] = resource
	out := map[string]any{"access_token": access, "token_type": "bearer", "expires_in": p.expiresIn, "scope": "tools"}
	if !p.noRefresh {
		p.refreshes[refresh] = resource
		out["refresh_token"] = refresh
	}
	answer(w, 200, out)
}

// forget invalidates the tokens, and with all also the refresh tokens.
func (p *place) forget(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.tokens)
	if all {
		clear(p.refreshes)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
