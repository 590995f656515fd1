package login_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/logintest"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "RS256"} {
		w := newWorld(t)
		w.provider.Rotate(t, logintest.NewKey(t, algorithm))
		in := must.Get(w.login(ann))(t)
		if in.Member.Principal != access.User("ann") || !slices.Equal(in.Member.Roles, []access.Role{access.RoleOperator}) {
			t.Errorf("%s: logged in %+v", algorithm, in.Member)
		}
		if c := must.Get(w.identity.Callers.Authenticate(in.Certificate.Chain))(t); c.Principal != access.User("ann") {
			t.Errorf("%s: the certificate is of %+v", algorithm, c)
		}
	}
}

func TestPublicClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.Secret = nil })
	w.provider.Public()
	must.Get(w.login(ann))(t)
	// Control: a provider that requires the secret refuses a client without it.
	other := newWorld(t, func(c *login.Config) { c.Secret = nil })
	if _, err := other.login(ann); reason.Of(err) != reason.LoginUnavailable || !strings.Contains(err.Error(), "does not accept the gateway as its client") {
		t.Errorf("a client without its secret: %v", err)
	}
}

// The provider's metadata selects how the client sends its secret.
func TestSecretInTheBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.Discovery(func(said map[string]any) {
		said["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
	})
	must.Get(w.login(ann))(t)
}

// TestForgedTokens: an ID token with any false claim is refused.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	rs := logintest.NewKey(t, "RS256")
	pub := must.Get(x509.MarshalPKIXPublicKey(rs.Public()))(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub})
	n, _ := rs.Public().(*rsa.PublicKey)
	stranger := logintest.NewKey(t, "RS256")
	set := func(claim string, value any) func(h, c map[string]any) string {
		return func(h, c map[string]any) string {
			if c[claim] = value; value == nil {
				delete(c, claim)
			}
			return rs.Sign(h, c)
		}
	}
	for name, test := range map[string]struct {
		forge func(h, c map[string]any) string
		want  string
	}{
		"alg none":                     {logintest.Unsigned, "does not count"},
		"HS256 with the public key":    {func(h, c map[string]any) string { return logintest.HMAC(text, h, c) }, "does not count"},
		"HS256 with its DER":           {func(h, c map[string]any) string { return logintest.HMAC(pub, h, c) }, "does not count"},
		"HS256 with the modulus":       {func(h, c map[string]any) string { return logintest.HMAC(n.N.Bytes(), h, c) }, "does not count"},
		"HS256 with the secret":        {func(h, c map[string]any) string { return logintest.HMAC([]byte(logintest.Secret), h, c) }, "does not count"},
		"another key with the same id": {func(h, c map[string]any) string { return stranger.Sign(h, c) }, "does not count"},
		"another key in the header": {func(h, c map[string]any) string {
			h["kid"] = stranger.ID
			h["jwk"] = map[string]any{"kty": "oct", "k": "AAAA"}
			return stranger.Sign(h, c)
		}, "does not count"},
		"no signature": {func(h, c map[string]any) string { s := rs.Sign(h, c); return s[:strings.LastIndex(s, ".")+1] }, "does not count"},
		"another content": {func(h, c map[string]any) string {
			a := rs.Sign(h, c)
			c["sub"] = "x"
			b := rs.Sign(h, c)
			return strings.Split(b, ".")[0] + "." + strings.Split(b, ".")[1] + "." + strings.Split(a, ".")[2]
		}, "does not count"},
		"no token":         {func(map[string]any, map[string]any) string { return "" }, "has no ID token"},
		"no JWT":           {func(map[string]any, map[string]any) string { return "ey.." }, "does not count"},
		"another audience": {set("aud", "another-client"), "does not count"},
		"no audience":      {set("aud", nil), "does not count"},
		"two audiences":    {set("aud", []string{logintest.ClientID, "another-client"}), "for another client"},
		"two audiences, another party": {func(h, c map[string]any) string {
			c["aud"], c["azp"] = []string{logintest.ClientID, "another-client"}, "another-client"
			return rs.Sign(h, c)
		}, "for another client"},
		"another party":       {set("azp", "another-client"), "for another client"},
		"a party as a list":   {set("azp", []string{logintest.ClientID}), "for another client"},
		"an empty party":      {set("azp", ""), "for another client"},
		"another issuer":      {set("iss", "https://evil.example"), "does not count"},
		"issuer with a slash": {func(h, c map[string]any) string { c["iss"] = fmt.Sprint(c["iss"]) + "/"; return rs.Sign(h, c) }, "does not count"},
		"issuer without its path": {func(h, c map[string]any) string {
			c["iss"] = strings.TrimSuffix(fmt.Sprint(c["iss"]), "/realms/main")
			return rs.Sign(h, c)
		}, "does not count"},
		"expired":             {set("exp", time.Now().Add(-time.Second).Unix()), "does not count"},
		"no expiry":           {set("exp", nil), "does not count"},
		"not yet valid":       {set("nbf", time.Now().Add(time.Hour).Unix()), "does not count"},
		"of the future":       {set("iat", time.Now().Add(time.Hour).Unix()), "of the future"},
		"another nonce":       {set("nonce", "another"), "not of this login"},
		"no nonce":            {set("nonce", nil), "not of this login"},
		"no subject":          {set("sub", nil), "has no subject"},
		"a long subject":      {set("sub", strings.Repeat("s", 256)), "has no subject"},
		"a name that is none": {set("preferred_username", "Ann Other <ann@example.com>"), "not a valid name of a member"},
		"no name":             {set("preferred_username", nil), "not a valid name of a member"},
		"a name as a number":  {set("preferred_username", 7), "not a valid name of a member"},
		"no groups":           {set("groups", nil), "is in no group"},
		"groups elsewhere": {func(h, c map[string]any) string {
			delete(c, "groups")
			c["_claim_names"] = map[string]string{"groups": "src1"}
			c["_claim_sources"] = map[string]any{"src1": map[string]string{"endpoint": "https://graph.example/groups"}}
			return rs.Sign(h, c)
		}, "there are too many"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.provider.Rotate(t, rs)
			w.provider.Forge(test.forge)
			s := w.begin(redirect)
			in, err := s.complete(s.browse())
			wantRefused(t, name, err, test.want)
			if in.Device.ID != "" || len(w.identity.Directory.Devices()) > 0 {
				t.Errorf("somebody got in as %s", in.Member.Principal)
			}
			if len(w.refused) != 1 {
				t.Errorf("refusals: %q", w.refused)
			}
			w.checkLogin()
		})
	}
}

// A token that names this client as the authorized party is accepted, whatever its number of
// audiences.
func TestAuthorizedParty(t *testing.T) {
	t.Parallel()
	for name, claims := range map[string]map[string]any{
		"one audience":               {"azp": logintest.ClientID},
		"a list of one":              {"aud": []string{logintest.ClientID}},
		"two audiences, and a party": {"aud": []string{"another-client", logintest.ClientID}, "azp": logintest.ClientID},
	} {
		w := newWorld(t)
		person := ann
		person.Claims = claims
		if in, err := w.login(person); err != nil || in.Member.Principal != access.User("ann") {
			t.Errorf("%s: %+v, %v", name, in.Member, err)
		}
	}
}

// TestOnlyConfiguredAlgorithms: a token with an algorithm that is not configured is refused, even
// with a valid signature.
func TestOnlyConfiguredAlgorithms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.Algorithms = []string{"RS256"} })
	if _, err := w.login(ann); reason.Of(err) != reason.LoginRefused {
		t.Errorf("ES256 where RS256 is configured: %v", err)
	}
	w.provider.Rotate(t, logintest.NewKey(t, "RS256"))
	w.checkLogin()
	for _, weak := range []string{"none", "HS256", "HS512", "", "rs256"} {
		if _, err := login.New(login.Config{
			Issuer: "https://id.example", ClientID: "c", UsernameClaim: "u", GroupsClaim: "g", Algorithms: []string{"RS256", weak}, Session: time.Hour,
			Members: w.identity.Logins, Refused: func(context.Context, string) {}, Log: w.Log,
		}); err == nil {
			t.Errorf("the algorithm %q can be configured", weak)
		}
	}
}

// A login can be completed once, only by the client that started it, and with the login's own
// values.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.begin(redirect)
	a := s.browse()
	must.Get(s.complete(a))(t)
	_, err := s.complete(a)
	wantRefused(t, "the same answer again", err, "login not found")

	// The code of a completed login is refused in another.
	other := w.begin(redirect)
	replayed := a
	replayed.ID, replayed.State = other.begun.ID, other.browse().State
	replayed.Proof = must.Get(identity.Prove(other.key, identity.LoginProof(other.begun.ID, a.Code)))(t)
	_, err = other.complete(replayed)
	wantRefused(t, "a code that was used", err, "refused the login")

	for name, change := range map[string]func(mine *session, a *login.Answer){
		"the state of another login": func(_ *session, a *login.Answer) { a.State = w.begin(redirect).browse().State },
		"no state":                   func(_ *session, a *login.Answer) { a.State = "" },
		"another issuer":             func(_ *session, a *login.Answer) { a.Issuer = "https://evil.example" },
		"no such login":              func(_ *session, a *login.Answer) { a.ID = "none" },
		"no proof":                   func(_ *session, a *login.Answer) { a.Proof = nil },
		"the proof of another key": func(mine *session, a *login.Answer) {
			key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
			a.Proof = must.Get(identity.Prove(key, identity.LoginProof(mine.begun.ID, a.Code)))(t)
		},
		"the proof of another code": func(mine *session, a *login.Answer) {
			a.Proof = must.Get(identity.Prove(mine.key, identity.LoginProof(mine.begun.ID, "other")))(t)
		},
		// A stolen code in a login of the thief is refused: PKCE and the nonce bind it to its own
		// login.
		"a stolen code": func(mine *session, a *login.Answer) {
			a.Code = w.begin(redirect).browse().Code
			a.Proof = must.Get(identity.Prove(mine.key, identity.LoginProof(mine.begun.ID, a.Code)))(t)
		},
	} {
		mine := w.begin(redirect)
		a := mine.browse()
		change(mine, &a)
		before := len(w.identity.Directory.Devices())
		if _, err := mine.complete(a); reason.Of(err) != reason.LoginRefused {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(w.identity.Directory.Devices()); n != before {
			t.Errorf("%s: %d devices, there were %d", name, n, before)
		}
		w.checkLogin()
	}
}

// TestOthersCannotConsumeALogin: a third party that learns of a login cannot consume it.
func TestOthersCannotConsumeALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.begin(redirect)
	a := s.browse()
	stolen := a
	stolen.Proof, stolen.Address = []byte("x"), "192.0.2.99"
	_, err := s.complete(stolen)
	wantRefused(t, "a stranger", err, "login not found")
	must.Get(s.complete(a))(t)
}

// The authorization URL requests PKCE, and the provider enforces it at the exchange.
func TestAuthorizationURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.MaxAge = time.Hour })
	s := w.begin(redirect)
	q := must.Get(url.Parse(s.begun.AuthorizationURL))(t).Query()
	for name, want := range map[string]string{
		"client_id": logintest.ClientID, "response_type": "code", "code_challenge_method": "S256", "redirect_uri": redirect, "scope": "openid profile", "max_age": "3600",
	} {
		if q.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, q.Get(name), want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(q.Get(name)) < 26 {
			t.Errorf("%s is %q", name, q.Get(name))
		}
	}
	if q.Get("client_secret") != "" || q.Get("code_verifier") != "" {
		t.Error("a secret stands in the URL")
	}
	// A code that was issued without PKCE, or for another challenge, is refused.
	q.Set("code_challenge", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	page, _, _ := strings.Cut(s.begun.AuthorizationURL, "?")
	_, err := s.complete(s.answer(w.browse(page + "?" + q.Encode())))
	wantRefused(t, "another challenge", err, "refused the login")
}

func TestRedirectsAreLoopback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bad := range []string{
		"https://127.0.0.1:4711/callback", "http://localhost:4711/callback", "http://127.0.0.1/callback", "http://127.0.0.1:0/callback", "http://127.0.0.1:70000/callback",
		"http://127.0.0.1:4711/other", "http://127.0.0.1:4711/callback?x=1", "http://127.0.0.1:4711/callback#x", "http://a@127.0.0.1:4711/callback",
		"http://evil.example:4711/callback", "http://127.0.0.1.evil.example:4711/callback", "http://[::1]:4711/callback", "http://127.0.0.1:04711/callback", "x",
	} {
		if _, err := w.tryBegin(bad, "192.0.2.1"); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%s: %v", bad, err)
		}
	}
	w.begin(redirect)
}

func TestRotatedKeysApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.login(ann))(t)
	old := w.provider.Key()
	w.provider.Rotate(t)
	must.Get(w.login(ann))(t) // an unknown key is fetched at once

	// A withdrawn key is no longer accepted after some minutes.
	w.provider.Forge(old.Sign)
	s := w.begin(redirect)
	w.pass(6 * time.Minute)
	_, err := s.complete(s.browse())
	wantRefused(t, "a withdrawn key", err, "does not count")
	w.checkLogin()
}

// TestProviderUnavailable: while the provider is unavailable, new logins are refused and existing
// sessions continue.
func TestProviderUnavailable(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/keys", "/token", "/.well-known/openid-configuration"} {
		w := newWorld(t)
		in := must.Get(w.login(ann))(t)
		w.pass(6 * time.Minute)
		s := w.begin(redirect)
		a := s.browse()
		w.pass(6 * time.Minute)
		w.provider.Down(true, path)
		if path == "/keys" {
			w.provider.Rotate(t)
		}
		if _, err := s.complete(a); reason.Of(err) != reason.LoginUnavailable {
			t.Errorf("%s: %v", path, err)
		}
		must.Get(w.identity.Callers.Authenticate(in.Certificate.Chain))(t)
		if len(w.refused) != 0 {
			t.Errorf("%s: somebody is blamed: %q", path, w.refused)
		}
		w.provider.Down(false, path)
		w.pass(time.Minute)
		w.checkLogin()
	}
}

// Unauthenticated callers cannot make the gateway query an unavailable provider at will.
func TestAbsentProviderIsNotFlooded(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/openid-configuration"
	w := newWorld(t)
	w.provider.Down(true, path)
	for range 20 {
		if _, err := w.tryBegin(redirect, "192.0.2.1"); reason.Of(err) != reason.LoginUnavailable {
			t.Fatal(err)
		}
	}
	if n := w.provider.Asked(path); n != 1 {
		t.Errorf("asked %d times", n)
	}
	w.provider.Down(false, path)
	w.pass(10 * time.Second)
	for range 20 {
		w.begin(redirect)
	}
	if n := w.provider.Asked(path); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestForgedProviderMetadata(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"another issuer":                   func(said map[string]any) { said["issuer"] = "https://evil.example" },
		"a token endpoint that is not TLS": func(said map[string]any) { said["token_endpoint"] = "http://id.example/token" },
		"keys that are not TLS":            func(said map[string]any) { said["jwks_uri"] = "http://id.example/keys" },
		"an invalid page URL":              func(said map[string]any) { said["authorization_endpoint"] = "javascript:alert(1)" },
		"no keys":                          func(said map[string]any) { delete(said, "jwks_uri") },
		"endless":                          func(said map[string]any) { said["x"] = strings.Repeat("x", 2<<20) },
	} {
		w := newWorld(t)
		w.provider.Discovery(change)
		if _, err := w.tryBegin(redirect, "192.0.2.1"); reason.Of(err) != reason.LoginUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		w.provider.Discovery(nil)
		w.pass(time.Minute)
		w.begin(redirect)
	}
}

// Roles follow the groups at each login. A person who is in none of the groups any more also
// loses their open sessions.
func TestRolesFollowGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must.Get(w.login(ann))(t)
	moved := ann
	moved.Groups = []string{"makers"}
	in := must.Get(w.login(moved))(t)
	if !slices.Equal(in.Member.Roles, []access.Role{access.RoleAuditor, access.RoleDeveloper}) {
		t.Errorf("roles %v", in.Member.Roles)
	}
	moved.Groups = []string{"approvers", "auditors"}
	if in = must.Get(w.login(moved))(t); !slices.Equal(in.Member.Roles, []access.Role{access.RoleAuditor, access.RoleOperator}) {
		t.Errorf("roles %v", in.Member.Roles)
	}
	moved.Groups = []string{"staff"}
	_, err := w.login(moved)
	wantRefused(t, "no mapped group", err, "in no group that has a role here, but in staff")
	if step := reason.Known(err, reason.Internal).NextStep(); !strings.Contains(step, "[[oidc.groups]]") {
		t.Errorf("the next step is %q", step)
	}
	if _, err := w.identity.Callers.Authenticate(in.Certificate.Chain); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("the session of before goes on: %v", err)
	}
	if want := `"ann" (subject "s-ann"`; len(w.refused) != 1 || !strings.HasPrefix(w.refused[0], want) {
		t.Errorf("the refusal is of %q", w.refused)
	}
	if one := must.Get(w.login(logintest.Person{Subject: "x", Name: "one", Claims: map[string]any{"groups": "approvers"}}))(t); len(one.Member.Roles) != 1 {
		t.Errorf("one group as a text: %v", one.Member.Roles)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.UsernameClaim, c.UsernameDomain = "email", "example.com" })
	person := func(email string, verified any) logintest.Person {
		return logintest.Person{Subject: email, Groups: []string{"approvers"}, Claims: map[string]any{"email": email, "email_verified": verified}}
	}
	if in := must.Get(w.login(person("bob@example.com", true)))(t); in.Member.Principal != access.User("bob") {
		t.Errorf("logged in %s", in.Member.Principal)
	}
	for what, p := range map[string]logintest.Person{
		"an unverified address": person("cyd@example.com", false), "verified as a text": person("cyd@example.com", "true"),
		"another domain": person("cyd@evil.example", true), "the domain twice": person("cyd@example.com@evil.example", true),
		"a domain behind it": person("cyd@example.com.evil.example", true), "no domain": person("cyd", true), "no name": person("@example.com", true),
	} {
		if _, err := w.login(p); reason.Of(err) != reason.LoginRefused {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := w.login(logintest.Person{Subject: "other", Groups: []string{"approvers"}, Claims: map[string]any{"email": "bob@example.com", "email_verified": true}})
	wantRefused(t, "a name of another person", err, "another person at the identity provider")
}

func TestMaxAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.MaxAge = time.Hour })
	long, never := ann, ann
	long.Claims = map[string]any{"auth_time": time.Now().Add(-2 * time.Hour).Unix()}
	never.Claims = map[string]any{"auth_time": nil}
	_, err := w.login(long)
	wantRefused(t, "two hours ago", err, "longer ago than oidc.max_age")
	_, err = w.login(never)
	wantRefused(t, "unknown when", err, "does not say when")
	w.checkLogin()
}

func TestWhoDeniedAtTheProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.SignIn(logintest.Person{})
	s := w.begin(redirect)
	if a := s.browse(); a.Code != "" {
		t.Errorf("a code for nobody: %+v", a)
	} else if _, err := s.complete(a); reason.Of(err) != reason.LoginRefused {
		t.Errorf("without a code: %v", err)
	}
}

// Pending logins are limited, in total and per address, and expire.
func TestOpenLoginsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.begin(redirect)
	open := 0
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	request := csr(t, key)
	for i := range 10_000 {
		_, err := w.Begin(t.Context(), login.Request{CSR: request, Redirect: redirect, Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)})
		switch {
		case err == nil:
			open++
		case reason.Of(err) != reason.RateLimited:
			t.Fatal(err)
		}
	}
	if open != 4095 {
		t.Errorf("%d logins wait beside mine", open)
	}
	must.Get(mine.complete(mine.browse()))(t) // pending logins are not displaced
	for i := range 66 {
		if _, err := w.tryBegin(redirect, "198.51.100.7"); (err == nil) != (i < 1) {
			t.Fatalf("login %d while all places but one are taken: %v", i, err)
		}
	}
	w.pass(11 * time.Minute)
	for i := range 66 {
		if _, err := w.tryBegin(redirect, "198.51.100.7"); (err == nil) != (i < 64) {
			t.Errorf("login %d of one address: %v", i, err)
		}
	}
	late := w.begin(redirect)
	a := late.browse()
	w.pass(11 * time.Minute)
	_, err := late.complete(a)
	wantRefused(t, "a login that ended", err, "login not found")
}

// An address that is refused repeatedly is locked; others are not.
func TestLockout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine := w.begin(redirect)
	var locked error
	for range 20 {
		_, err := w.Complete(t.Context(), login.Answer{ID: "x", Address: "203.0.113.5"})
		if reason.Of(err) == reason.RateLimited {
			locked = err
			break
		}
	}
	if reason.Of(locked) != reason.RateLimited || reason.Known(locked, reason.Internal).Fields["retry_after"] == "" {
		t.Fatalf("twenty refusals: %v", locked)
	}
	if _, err := w.tryBegin(redirect, "203.0.113.5"); reason.Of(err) != reason.RateLimited {
		t.Errorf("the locked address begins: %v", err)
	}
	must.Get(mine.complete(mine.browse()))(t)
}

// TestLoginCompletesOnce: a login completes once, even if the provider accepts a code repeatedly:
// sequentially and concurrently, in either flow.
func TestLoginCompletesOnce(t *testing.T) {
	t.Parallel()
	for what, first := range map[string]func(w *world) (again func() error){
		"browser": func(w *world) func() error {
			s := w.begin(redirect)
			a := s.browse()
			return func() error {
				_, err := s.complete(a)
				return err
			}
		},
		"device": func(w *world) func() error {
			s := w.begin("")
			w.provider.Confirm(s.begun.UserCode, true)
			w.pass(time.Second)
			return func() error {
				in, _, err := s.poll()
				if err == nil && in.Device.ID == "" {
					err = errors.New("it waits")
				}
				return err
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.provider.Forgetful()
			answer := first(w)
			var won atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if answer() == nil {
						won.Add(1)
					}
				})
			}
			all.Wait()
			w.pass(time.Minute)
			wantRefused(t, "once more", answer(), "login not found")
			if n := len(w.identity.Directory.Devices()); won.Load() != 1 || n != 1 {
				t.Errorf("%d answers got in, and there are %d devices", won.Load(), n)
			}
		})
	}
}

func TestWithoutProvider(t *testing.T) {
	t.Parallel()
	s := must.Get(login.New(login.Config{}))(t)
	if _, err := s.Begin(t.Context(), login.Request{}); reason.Of(err) != reason.LoginUnavailable || !strings.Contains(err.Error(), "no identity provider") {
		t.Errorf("%v", err)
	}
	if _, err := s.Complete(t.Context(), login.Answer{}); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("%v", err)
	}
	if _, _, err := s.Poll(t.Context(), login.Question{}); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("%v", err)
	}
}
