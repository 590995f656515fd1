package resource_test

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/identity/login/logintest"
	"palyra/internal/identity/login/resource"
)

const audience = "https://gateway.example:7443/mcp"

// members maps the existing members.
type members map[access.Principal]access.Member

func (m members) Active(p access.Principal) (access.Member, bool) {
	found, ok := m[p]
	return found, ok && !found.Disabled && !found.AwaitsConsent
}

type world struct {
	t        *testing.T
	provider *logintest.Provider
	issuer   resource.Issuer
	members  members
	service  *resource.Service
	log      bytes.Buffer

	mu    sync.Mutex
	ahead time.Duration
	shown []string
}

func newWorld(t *testing.T, change ...func(*resource.Issuer)) *world {
	t.Helper()
	w := &world{t: t, provider: logintest.Start(t, "/realms/main")}
	alice, bot, other := access.User("alice"), access.Agent("bot"), access.Agent("other")
	w.members = members{
		alice: {Principal: alice, Roles: []access.Role{access.RoleOperator}},
		bot:   {Principal: bot, Owner: alice, Roles: []access.Role{access.RoleAgent}},
		other: {Principal: other, Owner: alice, Roles: []access.Role{access.RoleAgent}},
	}
	both := []access.Permission{access.PermToolCall, access.PermToolList}
	w.issuer = resource.Issuer{
		Name: w.provider.Issuer(), Audience: audience, Algorithms: []string{"RS256", "ES256"}, SubjectClaim: "sub", GroupsClaim: "groups", TypedTokens: true, ScopesInToken: true,
		Members: []resource.Mapping{
			{Subject: "subject-of-alice", ActsAs: alice, Scopes: both},
			{Group: "bots", ActsAs: bot, Scopes: both[:1]},
			{Group: "others", ActsAs: other, Scopes: both},
		},
	}
	w.issuer.Rules.Allow = must.Get(resource.Hosts(w.issuer.Name))(t)
	for _, fn := range change {
		fn(&w.issuer)
	}
	w.restart()
	t.Cleanup(func() {
		for _, token := range w.shown {
			if parts := strings.Split(token, "."); len(parts) == 3 && len(parts[1]) > 20 && strings.Contains(w.log.String(), parts[1]) {
				t.Error("a token stands in the log")
			}
		}
	})
	return w
}

func (w *world) restart(change ...func(*resource.Config)) {
	c := resource.Config{Issuers: []resource.Issuer{w.issuer}, Members: w.members, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Now: w.now}
	for _, fn := range change {
		fn(&c)
	}
	w.service = must.Get(resource.New(c))(w.t)
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

// parts returns the header and claims of a valid token.
func (w *world) parts() (header, claims map[string]any) {
	now, key := w.now(), w.provider.Key()
	return map[string]any{"alg": key.Algorithm, "kid": key.ID, "typ": "at+jwt"}, map[string]any{
		"iss": w.provider.Issuer(), "sub": "subject-of-alice", "aud": audience, "exp": now.Add(5 * time.Minute).Unix(), "iat": now.Unix(),
		"client_id": "a-client", "scope": "tool.call tool.list openid", "jti": "1",
	}
}

func (w *world) show(token string) (access.Caller, error) {
	w.shown = append(w.shown, token)
	return w.service.Authenticate(context.Background(), token)
}

// with presents a token with changed claims; nil removes a claim.
func (w *world) with(other map[string]any) (access.Caller, error) {
	h, c := w.parts()
	for name, value := range other {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return w.show(w.provider.Key().Sign(h, c))
}

// checkToken is the control: a valid token is accepted.
func (w *world) checkToken(what string) {
	w.t.Helper()
	if c, err := w.with(nil); err != nil || c.Principal != access.User("alice") {
		w.t.Errorf("%s: control: %+v, %v", what, c, err)
	}
}

func TestTokenOfAnIssuer(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"ES256", "RS256"} {
		w := newWorld(t)
		w.provider.Rotate(t, logintest.NewKey(t, algorithm))
		c, err := w.with(nil)
		if err != nil || c.Principal != access.User("alice") || c.OnBehalfOf != access.User("alice") || c.Paired || c.Present ||
			c.Token == nil || !slices.Equal(c.Token.Scopes, []access.Permission{access.PermToolCall, access.PermToolList}) ||
			c.Token.Issuer != w.issuer.Name || c.Token.Creator != access.User("alice") || time.Until(c.Token.ExpiresAt) > 5*time.Minute {
			t.Fatalf("%s: %+v, %+v, %v", algorithm, c, c.Token, err)
		}
		again, err := w.with(map[string]any{"jti": "2"})
		if err != nil || again.DeviceID != c.DeviceID {
			t.Errorf("a refreshed token is of another credential: %q, %q, %v", c.DeviceID, again.DeviceID, err)
		}
		if other, _ := w.with(map[string]any{"client_id": "another"}); other.DeviceID == c.DeviceID {
			t.Error("two clients share a credential")
		}
	}
}

// TestForgedTokens: a token with any false claim is refused. After each, the control succeeds.
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
	head := func(name string, value any) func(h, c map[string]any) string {
		return func(h, c map[string]any) string {
			if h[name] = value; value == nil {
				delete(h, name)
			}
			return rs.Sign(h, c)
		}
	}
	for name, forge := range map[string]func(h, c map[string]any) string{
		"alg none":                     logintest.Unsigned,
		"HS256 with the public key":    func(h, c map[string]any) string { return logintest.HMAC(text, h, c) },
		"HS256 with its DER":           func(h, c map[string]any) string { return logintest.HMAC(pub, h, c) },
		"HS256 with the modulus":       func(h, c map[string]any) string { return logintest.HMAC(n.N.Bytes(), h, c) },
		"another key with the same id": func(h, c map[string]any) string { return stranger.Sign(h, c) },
		"another key in the header": func(h, c map[string]any) string {
			h["kid"], h["jwk"] = stranger.ID, map[string]any{"kty": "oct", "k": "AAAA"}
			return stranger.Sign(h, c)
		},
		"no signature": func(h, c map[string]any) string { s := rs.Sign(h, c); return s[:strings.LastIndex(s, ".")+1] },
		"another content": func(h, c map[string]any) string {
			a := strings.Split(rs.Sign(h, c), ".")
			c["sub"] = "somebody"
			return a[0] + "." + strings.Split(rs.Sign(h, c), ".")[1] + "." + a[2]
		},
		"no JWT":                   func(map[string]any, map[string]any) string { return "ey.." },
		"a long one":               set("x", strings.Repeat("x", 20_000)),
		"another audience":         set("aud", "https://other.example/mcp"),
		"no audience":              set("aud", nil),
		"audience with a slash":    set("aud", audience+"/"),
		"the audience as a prefix": set("aud", []string{audience + ".evil.example"}),
		"another issuer":           set("iss", "https://evil.example"),
		"issuer with a slash":      func(h, c map[string]any) string { c["iss"] = c["iss"].(string) + "/"; return rs.Sign(h, c) },
		"no issuer":                set("iss", nil),
		"expired":                  set("exp", time.Now().Add(-time.Second).Unix()),
		"no expiry":                set("exp", nil),
		"not yet valid":            set("nbf", time.Now().Add(2*time.Minute).Unix()),
		"a time that is none":      set("nbf", "soon"),
		"of the future":            set("iat", time.Now().Add(2*time.Minute).Unix()),
		"no subject":               set("sub", nil),
		"a subject as a list":      set("sub", []string{"subject-of-alice"}),
		"an unmapped subject":      set("sub", "subject-of-nobody"),
		"a subject in other case":  set("sub", "Subject-Of-Alice"),
		"bound to a key":           set("cnf", map[string]any{"jkt": "x"}),
		"an ID token":              head("typ", "JWT"),
		"a logout token":           head("typ", "logout+jwt"),
		"no type":                  head("typ", nil),
		"a critical extension":     head("crit", []string{"x"}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.provider.Rotate(t, rs)
			c, err := w.show(forge(w.parts()))
			if reason.Of(err) != reason.Unauthenticated || !c.Principal.IsZero() {
				t.Errorf("%+v, %v", c, err)
			}
			w.checkToken(name)
		})
	}
}

// TestTypes: the operator configures which token types are accepted.
func TestTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(i *resource.Issuer) { i.TypedTokens = false })
	for typ, ok := range map[string]bool{"at+jwt": true, "application/at+jwt": true, "JWT": true, "": true, "logout+jwt": false} {
		h, c := w.parts()
		if h["typ"] = typ; typ == "" {
			delete(h, "typ")
		}
		if _, err := w.show(w.provider.Key().Sign(h, c)); (err == nil) != ok {
			t.Errorf("%q: %v", typ, err)
		}
	}
}

// TestIssuerMixUp: the keys of one issuer sign no tokens of another, and metadata of another
// issuer is refused.
func TestIssuerMixUp(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), logintest.Start(t, "")
	second := w.issuer
	second.Name, second.Rules = other.Issuer(), egress.Rules{Allow: must.Get(resource.Hosts(other.Issuer()))(t)}
	second.Members = []resource.Mapping{{Subject: "subject-of-alice", ActsAs: access.Agent("other"), Scopes: []access.Permission{access.PermToolList}}}
	w.restart(func(c *resource.Config) { c.Issuers = append(c.Issuers, second) })
	h, c := w.parts()
	h["kid"], h["alg"] = other.Key().ID, other.Key().Algorithm
	if _, err := w.show(other.Key().Sign(h, c)); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("the other issuer's key signed for this one: %v", err)
	}
	c["iss"] = other.Issuer()
	if got, err := w.show(other.Key().Sign(h, c)); err != nil || got.Principal != access.Agent("other") {
		t.Errorf("control: its own token is of %v, %v", got.Principal, err)
	}
	w.checkToken("mix-up")

	w = newWorld(t)
	w.provider.Discovery(func(said map[string]any) { said["issuer"] = other.Issuer() })
	if _, err := w.with(nil); reason.Of(err) != reason.LoginUnavailable || !strings.Contains(err.Error(), "its metadata is of") {
		t.Errorf("metadata of another: %v", err)
	}
}

// TestMapping: an unmapped subject is refused, and groups act as agents.
func TestMapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := func(names ...any) map[string]any { return map[string]any{"sub": "x", "groups": names} }
	for name, test := range map[string]struct {
		claims map[string]any
		want   access.Principal
		scopes int
	}{
		"a group":                      {group("bots", "nobodies"), access.Agent("bot"), 1},
		"one text":                     {map[string]any{"sub": "x", "groups": "others"}, access.Agent("other"), 2},
		"no group":                     {group(), access.Principal{}, 0},
		"groups of several":            {group("bots", "others"), access.Principal{}, 0},
		"groups, and a subject":        {map[string]any{"groups": []string{"bots", "others"}}, access.User("alice"), 2},
		"scopes of none":               {map[string]any{"scope": "openid"}, access.User("alice"), 0},
		"no scopes":                    {map[string]any{"scope": nil}, access.User("alice"), 0},
		"scopes as a list":             {map[string]any{"scope": nil, "scp": []string{"tool.list"}}, access.User("alice"), 1},
		"scopes beyond the mapping":    {map[string]any{"scope": "tool.call approval.decide access.write journal.export"}, access.User("alice"), 1},
		"a scope that looks like one":  {map[string]any{"scope": "tool.calls tool.* xtool.call"}, access.User("alice"), 0},
		"an issuer's word of a member": {map[string]any{"sub": "user:alice"}, access.Principal{}, 0},
	} {
		c, err := w.with(test.claims)
		if c.Principal != test.want || (err == nil) != !test.want.IsZero() {
			t.Errorf("%s: %v, %v", name, c.Principal, err)
		} else if err == nil && len(c.Token.Scopes) != test.scopes {
			t.Errorf("%s: scopes %v", name, c.Token.Scopes)
		}
		if err == nil && c.Principal.Kind == access.KindAgent && c.OnBehalfOf != access.User("alice") {
			t.Errorf("%s: on behalf of %v", name, c.OnBehalfOf)
		}
	}
	w = newWorld(t, func(i *resource.Issuer) { i.ScopesInToken = false })
	if c, err := w.with(map[string]any{"scope": nil}); err != nil || len(c.Token.Scopes) != 2 {
		t.Errorf("scopes of the mapping: %v, %v", c.Token, err)
	}
}

// TestMembersWhoMayNotAct: a mapping gives no rights that the member does not have.
func TestMembersWhoMayNotAct(t *testing.T) {
	t.Parallel()
	alice := access.User("alice")
	for name, change := range map[string]func(*access.Member){
		"disabled": func(m *access.Member) { m.Disabled = true }, "awaits consent": func(m *access.Member) { m.AwaitsConsent = true },
	} {
		w := newWorld(t)
		came := must.Get(w.with(nil))(t)
		must.Do(t, w.service.Stands(came))
		m := w.members[alice]
		change(&m)
		w.members[alice] = m
		if err := w.service.Stands(came); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("%s since it came in: %v", name, err)
		}
		if _, err := w.with(nil); reason.Of(err) != reason.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	delete(w.members, alice)
	if _, err := w.with(nil); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("unknown: %v", err)
	}
}

// TestSettings: settings that would let others than the issuer sign, or let a token choose its
// verification, are refused at the start.
func TestSettings(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*resource.Issuer){
		"HS256":                    func(i *resource.Issuer) { i.Algorithms = []string{"RS256", "HS256"} },
		"none":                     func(i *resource.Issuer) { i.Algorithms = []string{"none"} },
		"no algorithm":             func(i *resource.Issuer) { i.Algorithms = nil },
		"no audience":              func(i *resource.Issuer) { i.Audience = "" },
		"a group acts as a person": func(i *resource.Issuer) { i.Members = []resource.Mapping{{Group: "g", ActsAs: access.User("alice")}} },
		"a subject and a group":    func(i *resource.Issuer) { i.Members[0].Group = "g" },
		"a scope that takes a device": func(i *resource.Issuer) {
			i.Members = []resource.Mapping{{Subject: "s", ActsAs: access.User("alice"), Scopes: []access.Permission{access.PermApprovalDecide}}}
		},
	} {
		w := newWorld(t)
		i := w.issuer
		i.Members = slices.Clone(i.Members)
		change(&i)
		if _, err := resource.New(resource.Config{Issuers: []resource.Issuer{i}, Members: w.members, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if s := must.Get(resource.New(resource.Config{}))(t); s.Offered() {
		t.Error("tokens are taken without an issuer")
	}
}

// TestRotatedKeys: a key that the issuer adds is accepted at once, and a withdrawn key is
// refused. Tokens with unknown keys cannot make the gateway query the issuer at will.
func TestRotatedKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.checkToken("first")
	old := w.provider.Key()
	sign := func(k *logintest.Key) error {
		h, c := w.parts()
		h["kid"], h["alg"] = k.ID, k.Algorithm
		_, err := w.show(k.Sign(h, c))
		return err
	}
	w.pass(time.Minute)
	w.provider.Rotate(t)
	if err := sign(w.provider.Key()); err != nil {
		t.Errorf("a new key: %v", err)
	}
	if err := sign(old); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("the old key still counts: %v", err)
	}
	asked := w.provider.Asked("/keys")
	for range 20 {
		if err := sign(logintest.NewKey(t, "ES256")); reason.Of(err) != reason.Unauthenticated {
			t.Fatalf("%v", err)
		}
	}
	if more := w.provider.Asked("/keys") - asked; more > 0 {
		t.Errorf("tokens of unknown keys had the issuer asked %d times at once", more)
	}
	// A key that is withdrawn without a replacement is refused after the keys are fetched again.
	mine := w.provider.Key()
	w.pass(time.Minute)
	w.provider.Rotate(t, old)
	if err := sign(mine); err != nil {
		t.Errorf("control: within the five minutes it counts: %v", err)
	}
	w.pass(5 * time.Minute)
	if err := sign(mine); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("a withdrawn key counts for ever: %v", err)
	}
}

// TestUnreachableKeys: an unreachable issuer is queried at increasing intervals. Cached keys
// are valid for a while; then every token is refused, with a reason that states this.
func TestUnreachableKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.Down(true, "/keys")
	for range 5 {
		if _, err := w.with(nil); reason.Of(err) != reason.LoginUnavailable {
			t.Fatalf("%v", err)
		}
	}
	if n := w.provider.Asked("/keys"); n != 1 {
		t.Errorf("asked %d times at once", n)
	}
	for range 60 {
		w.pass(5 * time.Second)
		_, _ = w.with(nil)
	}
	if n := w.provider.Asked("/keys"); n < 4 || n > 8 {
		t.Errorf("asked %d times in five minutes", n)
	}
	w.provider.Down(false, "/keys")
	w.pass(3 * time.Minute)
	w.checkToken("up again")
	w.provider.Down(true, "/keys")
	w.pass(6 * time.Minute)
	w.checkToken("known keys count while the issuer is away")
	w.pass(10 * time.Minute)
	if _, err := w.with(nil); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("after a quarter of an hour: %v", err)
	}
	if strings.Contains(w.log.String(), "at+jwt") || !strings.Contains(w.log.String(), "the keys of an OAuth issuer cannot be had") {
		t.Error(w.log.String())
	}
}

// TestKeysGoThroughTheEgressRules: the issuer is reached only at allowed hosts, and never at
// the gateway itself.
func TestKeysGoThroughTheEgressRules(t *testing.T) {
	t.Parallel()
	at := must.Get(url.Parse(logintest.Start(t, "").Issuer()))(t)
	for name, change := range map[string]func(*resource.Issuer, *logintest.Provider){
		"no host": func(i *resource.Issuer, _ *logintest.Provider) { i.Rules.Allow = nil },
		"denied": func(i *resource.Issuer, _ *logintest.Provider) {
			i.Rules.Deny = must.Get(egress.ParseRules([]string{"127.0.0.1"}))(t)
		},
		"the gateway itself": func(i *resource.Issuer, _ *logintest.Provider) {
			u := must.Get(url.Parse(i.Name))(t)
			i.Rules.Gateway = &egress.Gateway{}
			i.Rules.Gateway.Listen(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(u.Host)))
		},
		"keys elsewhere": func(_ *resource.Issuer, p *logintest.Provider) {
			p.Discovery(func(said map[string]any) { said["jwks_uri"] = "http://" + at.Host + "/keys" })
		},
		"a private name": func(i *resource.Issuer, _ *logintest.Provider) {
			u := must.Get(url.Parse(i.Name))(t)
			i.Rules.Allow = must.Get(egress.ParseRules([]string{"localhost:" + u.Port()}))(t)
		},
	} {
		w := newWorld(t)
		w.checkToken(name)
		w = newWorld(t)
		change(&w.issuer, w.provider)
		w.restart()
		if _, err := w.with(nil); reason.Of(err) != reason.LoginUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetadata: without metadata of an issuer, its tokens are refused. With a configured URL of
// its keys, no metadata is needed.
func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.Down(true, "/.well-known/openid-configuration")
	if _, err := w.with(nil); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("%v", err)
	}
	w.issuer.JWKS = w.issuer.Name + "/keys"
	w.restart()
	w.checkToken("jwks_uri")
}

// TestKeySets: keys of other types are ignored, and a set without a supported key is refused.
func TestKeySets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := w.provider.Key()
	h, c := w.parts()
	h = maps.Clone(h)
	delete(h, "kid")
	if _, err := w.show(k.Sign(h, c)); err != nil {
		t.Errorf("a token without the name of a key: %v", err)
	}
	w.provider.Rotate(t, logintest.NewKey(t, "RS256"), k)
	w.pass(6 * time.Minute)
	h, c = w.parts()
	h["kid"], h["alg"] = k.ID, "RS256"
	if _, err := w.show(k.Sign(h, c)); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("a key of one kind, named as another: %v", err)
	}
}

// TestIssuerSpellings: an issuer written with a slash after the host matches the configured
// one, in its metadata and in its tokens. Control: an issuer with a path is another issuer.
func TestIssuerSpellings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider = logintest.Start(t, "")
	issuer := w.provider.Issuer()
	w.issuer.Name, w.issuer.Rules = issuer, egress.Rules{Allow: must.Get(resource.Hosts(issuer))(t)}
	w.restart()
	w.provider.Discovery(func(said map[string]any) { said["issuer"] = issuer + "/" })
	for claim, ok := range map[string]bool{issuer: true, issuer + "/": true, issuer + "//": false, issuer + "/x": false, "https" + strings.TrimPrefix(issuer, "http"): false} {
		if _, err := w.with(map[string]any{"iss": claim}); (err == nil) != ok {
			t.Errorf("%s: %v", claim, err)
		}
	}
}
