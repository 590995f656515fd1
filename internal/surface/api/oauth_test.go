package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/login/logintest"
	"palyra/internal/identity/login/resource"
	"palyra/internal/identity/token"
	"palyra/internal/surface/api"
)

const evaluationRoute = "POST /access/v1/evaluation"

// late is a set of issuers that is created after the members.
type late struct{ *resource.Service }

// oauthWorld is the API with an issuer whose subject "alice" is alice, and a guarded
// route whose handler is serve.
type oauthWorld struct {
	*world
	provider *logintest.Provider
}

func newOAuthWorld(t *testing.T, serve http.HandlerFunc, setup ...func(*world)) *oauthWorld {
	t.Helper()
	issuers := &late{}
	o := &oauthWorld{provider: logintest.Start(t, "")}
	o.world = newWorld(t, append(setup, func(w *world) {
		w.issuers = issuers
		w.surfaces = map[string]http.Handler{evaluationRoute: serve}
		for _, pattern := range resource.MetadataRoutes {
			w.surfaces[pattern] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { issuers.Metadata(api.Origin).ServeHTTP(rw, r) })
		}
	})...)
	i := resource.Issuer{
		Name: o.provider.Issuer(), Audience: "a", Algorithms: []string{"ES256"}, SubjectClaim: "sub", GroupsClaim: "groups", TypedTokens: true, ScopesInToken: true,
		Members: []resource.Mapping{{Subject: "alice", ActsAs: access.User("alice"), Scopes: []access.Permission{access.PermAccessEvaluateFor, access.PermDaemonStatus}}},
	}
	i.Rules.Allow = must.Get(resource.Hosts(i.Name))(t)
	issuers.Service = must.Get(resource.New(resource.Config{Issuers: []resource.Issuer{i}, Members: o.registry, Log: slog.New(slog.DiscardHandler)}))(t)
	return o
}

func (o *oauthWorld) token(scope string) string {
	k, now := o.provider.Key(), time.Now()
	return k.Sign(map[string]any{"alg": k.Algorithm, "kid": k.ID, "typ": "at+jwt"}, map[string]any{
		"iss": o.provider.Issuer(), "sub": "alice", "aud": "a", "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "scope": scope,
	})
}

// send sends a request without a certificate.
func (o *oauthWorld) send(method, path, bearer string) (*http.Response, string) {
	o.t.Helper()
	req := must.Get(http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader("{}")))(o.t)
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res := must.Get(o.connect("", nil).http.Do(req))(o.t)
	text := must.Get(io.ReadAll(res.Body))(o.t)
	must.Do(o.t, res.Body.Close())
	return res, string(text)
}

// TestOAuthTokens: a token of an issuer is accepted on guarded routes within its scopes, and is
// not passed to their handlers. The API does not accept it.
func TestOAuthTokens(t *testing.T) {
	t.Parallel()
	var who access.Caller
	var seen string
	o := newOAuthWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		who, seen = api.CallerOf(r.Context()), r.Header.Get("Authorization")
	})
	const path = "/access/v1/evaluation"
	res, text := o.send("POST", path, o.token("access.evaluate_for"))
	if res.StatusCode != http.StatusOK || who.Principal != access.User("alice") || who.Token == nil || who.Token.Issuer != o.provider.Issuer() || seen != "" {
		t.Fatalf("%s %s: %+v, the handler saw %q", res.Status, text, who, seen)
	}
	if res, text := o.send("POST", path, o.token("daemon.status")); res.StatusCode != http.StatusForbidden {
		t.Errorf("without the scope: %s %s", res.Status, text)
	}
	res, _ = o.send("POST", path, "")
	if got, want := res.Header.Get("WWW-Authenticate"), `resource_metadata="`+o.url+`/.well-known/oauth-protected-resource/mcp"`; res.StatusCode != http.StatusUnauthorized || !strings.Contains(got, want) || strings.Contains(got, "error=") {
		t.Errorf("without a token: %s %q", res.Status, got)
	}
	res, _ = o.send("POST", path, "nonsense")
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("nonsense: %s %q", res.Status, res.Header.Get("WWW-Authenticate"))
	}
	good := o.token("access.evaluate_for")
	if res, text := o.send("POST", path+"?access_token="+good, ""); res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "tokens in a URL are not accepted") {
		t.Errorf("in the URL: %s %s", res.Status, text)
	}
	if res, _ := o.send("POST", path+"?access_token="+good, good); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("in the URL, too: %s", res.Status)
	}
	if res, _ := o.send("POST", path, good); res.StatusCode != http.StatusOK {
		t.Errorf("control: %s", res.Status)
	}

	// The API accepts no token of an issuer, even with the scope. It accepts a token of the
	// gateway.
	if res, text := o.send("POST", statusProcedure, o.token("daemon.status")); res.StatusCode != http.StatusForbidden || !strings.Contains(text, "does not accept tokens of other issuers") {
		t.Errorf("the API: %s %s", res.Status, text)
	}
	for _, procedure := range []string{"/palyra.v1.ApprovalsService/DecideApproval", "/palyra.v1.GatewayService/CallTool", "/palyra.v1.TokenService/CreateToken"} {
		if res, text := o.send("POST", procedure, o.token("tool.call approval.decide token.create")); res.StatusCode == http.StatusOK && !strings.Contains(text, string(reason.PermissionDenied)) {
			t.Errorf("%s: %s %s", procedure, res.Status, text)
		}
	}
	_, own, err := o.tokens.Create(t.Context(), access.User("alice"), token.Request{Name: "t", Scopes: []access.Permission{access.PermDaemonStatus, access.PermAccessEvaluateFor}})
	must.Do(t, err)
	for _, p := range []string{statusProcedure, path} {
		if res, text := o.send("POST", p, own); res.StatusCode != http.StatusOK {
			t.Errorf("control: %s: %s %s", p, res.Status, text)
		}
	}
	if _, err := o.alice.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestOAuthMembersWithFewerPermissions: a member's tokens lose each permission that the member
// loses, and open requests with such a token end.
func TestOAuthMembersWithFewerPermissions(t *testing.T) {
	t.Parallel()
	open, ended := make(chan struct{}), make(chan struct{})
	o := newOAuthWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-ID") == "" {
			return
		}
		close(open)
		<-r.Context().Done()
		close(ended)
	})
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/access/v1/evaluation", nil)
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+o.token("access.evaluate_for"))
		req.Header.Set("X-Request-ID", "stay")
		if res, err := o.connect("", nil).http.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-open
	if n := o.server.EndVouched(access.User("bob"), reason.Errorf(reason.Unauthenticated, "x")); n != 0 {
		t.Errorf("%d requests of somebody else were ended", n)
	}
	if n := o.server.EndVouched(access.User("alice"), reason.Errorf(reason.Unauthenticated, "disabled")); n != 1 {
		t.Errorf("%d requests were ended", n)
	}
	<-ended
	if res, _ := o.send("POST", "/access/v1/evaluation", o.token("access.evaluate_for")); res.StatusCode != http.StatusOK {
		t.Errorf("control: %s", res.Status)
	}
	m, _ := o.registry.Get(access.User("alice"))
	m.Disabled = true
	o.registry.Put(m)
	if res, text := o.send("POST", "/access/v1/evaluation", o.token("access.evaluate_for")); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("disabled: %s %s", res.Status, text)
	}
}

// TestResourceMetadata: the metadata of RFC 9728 need no credential, and do not exist without
// an issuer.
func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	o := newOAuthWorld(t, func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		res, text := o.send("GET", path, "")
		var said struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
			Methods  []string `json:"bearer_methods_supported"`
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil || res.StatusCode != http.StatusOK || said.Resource != o.url+"/mcp" || len(said.Servers) != 1 ||
			said.Servers[0] != o.provider.Issuer() || len(said.Scopes) != 2 || strings.Join(said.Methods, "") != "header" {
			t.Errorf("%s: %s %s", path, res.Status, text)
		}
	}
	o.issuers.(*late).Service = nil
	if res, _ := o.send("GET", "/.well-known/oauth-protected-resource", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("without an issuer: %s", res.Status)
	}
	if res, _ := o.send("POST", "/access/v1/evaluation", ""); strings.Contains(res.Header.Get("WWW-Authenticate"), "resource_metadata") {
		t.Error("metadata is named that is not there")
	}
}

// TestEachEvaluationIsCounted: each evaluation in a batch counts against the rate limit.
func TestEachEvaluationIsCounted(t *testing.T) {
	t.Parallel()
	var counted int
	o := newOAuthWorld(t, func(_ http.ResponseWriter, r *http.Request) {
		for counted = 0; api.CountAgain(r.Context()) == nil; counted++ {
		}
	}, func(w *world) {
		l := limit.Limit{PerSecond: 0.001, Burst: 5}
		w.limits[api.LimitToolCall] = limit.Rates{Each: l, Global: limit.Limit{PerSecond: 1000, Burst: 1000}}
	})
	if res, text := o.send("POST", "/access/v1/evaluation", o.token("access.evaluate_for")); res.StatusCode != http.StatusOK || counted != 4 {
		t.Errorf("%s %s: %d", res.Status, text, counted)
	}
	if res, _ := o.send("POST", "/access/v1/evaluation", o.token("access.evaluate_for")); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%s", res.Status)
	}
	if err := api.CountAgain(t.Context()); reason.Of(err) != reason.Internal {
		t.Errorf("outside of a request: %v", err)
	}
}
