// Package logintest is an OpenID Connect provider for tests. It implements the protocol over
// HTTP: discovery, keys, authorization code with PKCE, and the device flow. It signs tokens
// only with the standard library, so that it does not share errors with the code under test.
// Tests can make it send false data and fail.
package logintest

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Person has an account at the provider.
type Person struct {
	Subject, Name string
	Groups        []string
	// Claims are added to the ID token and override its other claims.
	Claims map[string]any
}

// The only client of the provider.
const (
	ClientID = "palyra"
	Secret   = "the client's secret & more"
)

// Provider is a running provider.
type Provider struct {
	server *httptest.Server
	path   string

	mu sync.Mutex
	// public means that the client has no secret.
	public bool
	person Person
	codes  map[string]grant
	// devices are device codes, by user code.
	devices map[string]*device
	keys    []*Key
	sign    func(header, claims map[string]any) string
	down    map[string]bool
	now     func() time.Time
	change  func(discovery map[string]any)
	said    []string
	asked   map[string]int
	slow    int
	// forgetful means that a code can be used repeatedly, which violates RFC 6749.
	forgetful bool
}

// grant is the grant of an authorization code.
type grant struct {
	person                     Person
	redirect, challenge, nonce string
}

type device struct {
	code   string
	person Person
	state  string // "" before the answer, then "confirmed" or "denied"
}

// Start starts a provider whose issuer has a path, such as "/realms/main"; "" for none.
func Start(t testing.TB, path string) *Provider {
	t.Helper()
	p := &Provider{
		path: path, codes: map[string]grant{}, devices: map[string]*device{}, keys: []*Key{NewKey(t, "ES256")}, down: map[string]bool{},
		now: time.Now, asked: map[string]int{},
	}
	mux := http.NewServeMux()
	for at, serve := range map[string]http.HandlerFunc{
		"/.well-known/openid-configuration": p.discovery, "/keys": p.jwks, "/authorize": p.authorize, "/token": p.token, "/device": p.device,
	} {
		mux.HandleFunc(path+at, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked[at]++
			if p.down[at] {
				http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
				return
			}
			serve(w, r)
		})
	}
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

// Issuer returns the provider's issuer identifier.
func (p *Provider) Issuer() string { return p.server.URL + p.path }

// with changes the provider.
func (p *Provider) with(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// SignIn makes a person the signed-in user of the browser and the other device.
func (p *Provider) SignIn(person Person) { p.with(func() { p.person = person }) }

// Public removes the client's secret.
func (p *Provider) Public() { p.with(func() { p.public = true }) }

// Clock sets the provider's clock.
func (p *Provider) Clock(now func() time.Time) { p.with(func() { p.now = now }) }

// Rotate replaces the keys with the given ones, or with a new key if none is given.
func (p *Provider) Rotate(t testing.TB, keys ...*Key) {
	if len(keys) == 0 {
		keys = []*Key{NewKey(t, "ES256")}
	}
	p.with(func() { p.keys = keys })
}

// Key returns the current signing key.
func (p *Provider) Key() (k *Key) {
	p.with(func() { k = p.keys[0] })
	return k
}

// Forge makes fn create the ID tokens; nil restores the normal behaviour.
func (p *Provider) Forge(fn func(header, claims map[string]any) string) {
	p.with(func() { p.sign = fn })
}

// Down makes endpoints fail from now on, or work again.
func (p *Provider) Down(down bool, paths ...string) {
	p.with(func() {
		for _, at := range paths {
			p.down[at] = down
		}
	})
}

// Discovery changes the provider's metadata.
func (p *Provider) Discovery(change func(map[string]any)) { p.with(func() { p.change = change }) }

// Slow makes the token endpoint answer slow_down to the next n polls of a device.
func (p *Provider) Slow(n int) { p.with(func() { p.slow = n }) }

// Forgetful makes the provider accept each code repeatedly.
func (p *Provider) Forgetful() { p.with(func() { p.forgetful = true }) }

// Asked returns the number of requests to an endpoint.
func (p *Provider) Asked(at string) (n int) {
	p.with(func() { n = p.asked[at] })
	return n
}

// Said returns the issued codes and tokens, which must not appear in any log, event or error.
func (p *Provider) Said() (list []string) {
	p.with(func() { list = slices.Clone(p.said) })
	return list
}

// Confirm sets the person's answer on the other device.
func (p *Provider) Confirm(userCode string, yes bool) {
	p.with(func() {
		d := p.devices[userCode]
		if d == nil {
			return
		}
		if d.state, d.person = "denied", p.person; yes {
			d.state = "confirmed"
		}
	})
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	said := map[string]any{
		"issuer": p.Issuer(), "authorization_endpoint": p.Issuer() + "/authorize", "token_endpoint": p.Issuer() + "/token",
		"jwks_uri": p.Issuer() + "/keys", "device_authorization_endpoint": p.Issuer() + "/device",
		"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}
	if p.change != nil {
		p.change(said)
	}
	answer(w, http.StatusOK, said)
}

func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	var list []map[string]any
	for _, k := range p.keys {
		list = append(list, k.jwk())
	}
	answer(w, http.StatusOK, map[string]any{"keys": list})
}

// authorize serves the page of RFC 6749, section 4.1.1, for the browser of a person who is signed
// in and has consented.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	redirect, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case q.Get("client_id") != ClientID || err != nil || !registered(redirect):
		http.Error(w, "unknown client or redirect_uri", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" ||
		q.Get("state") == "" || q.Get("nonce") == "" || !slices.Contains(strings.Fields(q.Get("scope")), "openid"):
		http.Error(w, "response_type, PKCE, state, nonce or scope is missing", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {p.Issuer()}}
	if p.person.Subject == "" {
		back.Set("error", "access_denied")
	} else {
		code := p.secret()
		p.codes[code] = grant{person: p.person, redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), nonce: q.Get("nonce")}
		back.Set("code", code)
	}
	redirect.RawQuery = back.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound)
}

// secret generates a secret that the provider issues.
func (p *Provider) secret() string {
	s := rand.Text()
	p.said = append(p.said, s)
	return s
}

// client authenticates the client (RFC 6749, section 2.3.1).
func (p *Provider) client(r *http.Request) bool {
	if p.public {
		return r.PostForm.Get("client_id") == ClientID
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = url.QueryEscape(r.PostForm.Get("client_id")), url.QueryEscape(r.PostForm.Get("client_secret"))
	}
	return id == url.QueryEscape(ClientID) && subtle.ConstantTimeCompare([]byte(secret), []byte(url.QueryEscape(Secret))) == 1
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil || !p.client(r) {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	var g grant
	var problem string
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		g, problem = p.redeem(r.PostForm)
	case "urn:ietf:params:oauth:grant-type:device_code":
		g, problem = p.confirmed(r.PostForm.Get("device_code"))
	default:
		problem = "unsupported_grant_type"
	}
	if problem != "" {
		answer(w, http.StatusBadRequest, map[string]any{"error": problem, "error_description": "with " + strings.Join(p.said, " ")})
		return
	}
	id := p.idToken(g)
	p.said = append(p.said, id)
	answer(w, http.StatusOK, map[string]any{"access_token": p.secret(), "token_type": "Bearer", "expires_in": 300, "id_token": id})
}

// redeem uses up a code (RFC 7636, section 4.6).
func (p *Provider) redeem(form url.Values) (grant, string) {
	g, ok := p.codes[form.Get("code")]
	if !p.forgetful {
		delete(p.codes, form.Get("code"))
	}
	digest := sha256.Sum256([]byte(form.Get("code_verifier")))
	if !ok || g.redirect != form.Get("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(digest[:]) {
		return g, "invalid_grant"
	}
	p.said = append(p.said, form.Get("code_verifier"))
	return g, ""
}

// confirmed returns the state of a device code (RFC 8628, section 3.5).
func (p *Provider) confirmed(code string) (grant, string) {
	if p.slow > 0 {
		p.slow--
		return grant{}, "slow_down"
	}
	for user, d := range p.devices {
		if d.code != code {
			continue
		}
		switch d.state {
		case "":
			return grant{}, "authorization_pending"
		case "denied":
			return grant{}, "access_denied"
		}
		if !p.forgetful {
			delete(p.devices, user)
		}
		return grant{person: d.person}, ""
	}
	return grant{}, "expired_token"
}

func (p *Provider) device(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil || !p.client(r) {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	d, user := &device{code: p.secret()}, rand.Text()[:8]
	p.devices[user] = d
	answer(w, http.StatusOK, map[string]any{
		"device_code": d.code, "user_code": user, "verification_uri": p.Issuer() + "/activate",
		"verification_uri_complete": p.Issuer() + "/activate?code=" + user, "expires_in": 300, "interval": 1,
	})
}

// idToken returns the ID token of OpenID Connect Core 1.0, section 2.
func (p *Provider) idToken(g grant) string {
	now := p.now()
	c := map[string]any{
		"iss": p.Issuer(), "sub": g.person.Subject, "aud": ClientID, "exp": now.Add(5 * time.Minute).Unix(), "iat": now.Unix(), "auth_time": now.Unix(),
		"preferred_username": g.person.Name, "groups": g.person.Groups,
	}
	if g.nonce != "" {
		c["nonce"] = g.nonce
	}
	maps.Copy(c, g.person.Claims)
	header := map[string]any{"alg": p.keys[0].Algorithm, "kid": p.keys[0].ID, "typ": "JWT"}
	if p.sign != nil {
		return p.sign(header, c)
	}
	return p.keys[0].Sign(header, c)
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// registered reports whether a redirect is registered: on a person's own machine, or of a
// console.
func registered(u *url.URL) bool {
	return u.Hostname() == "127.0.0.1" && u.Path == "/callback" || strings.HasSuffix(u.Hostname(), ".localhost") && u.Path == "/console/v1/callback"
}
