package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// withSurfaces returns a world whose guarded routes respond with status 418 and the caller's
// principal.
func withSurfaces(t *testing.T, setup ...func(*world)) *world {
	t.Helper()
	seen := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		rw.WriteHeader(http.StatusTeapot)
		_, _ = rw.Write([]byte(api.CallerOf(r.Context()).Principal.String() + " " + strings.Repeat("b", int(min(n, 1)))))
	})
	return newWorld(t, append(setup, func(w *world) {
		w.surfaces = map[string]http.Handler{api.MCPRoute: seen, api.ApprovalPageRoute: seen, "/debug/everything": seen}
	})...)
}

// asked is one request to a guarded route.
type asked struct {
	http    *http.Client
	url     string
	headers map[string]string
	body    string
}

func (a asked) answer(t *testing.T) (*http.Response, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, a.url, strings.NewReader(a.body)))(t)
	for name, value := range a.headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	res := must.Get(a.http.Do(r))(t)
	defer func() { _ = res.Body.Close() }()
	return res, string(must.Get(io.ReadAll(res.Body))(t))
}

// code returns the reason of an error response of the API.
func code(t *testing.T, body string) reason.Code {
	t.Helper()
	var answer struct {
		Details []struct {
			Debug struct{ Reason reason.Code }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Details) == 0 {
		t.Fatalf("no error of the API: %s", body)
	}
	return answer.Details[0].Debug.Reason
}

func TestGuardedRoutes(t *testing.T) {
	t.Parallel()
	w := withSurfaces(t)
	agent := "Bearer " + w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}}).GetText()
	local := strings.TrimPrefix(w.agents, "http://")
	for name, c := range map[string]struct {
		asked
		status int
		code   reason.Code
	}{
		"a certificate":             {asked{w.alice.http, w.url + "/mcp", nil, ""}, http.StatusTeapot, ""},
		"a token, plain":            {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent}, ""}, http.StatusTeapot, ""},
		"of the gateway's own page": {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Origin": "http://" + local}, ""}, http.StatusTeapot, ""},
		"a name of the gateway":     {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Host": "gateway.test:1"}, ""}, http.StatusTeapot, ""},
		"no credential":             {asked{http.DefaultClient, w.agents + "/mcp", nil, ""}, http.StatusUnauthorized, reason.Unauthenticated},
		"a wrong token":             {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent + "x"}, ""}, http.StatusUnauthorized, reason.Unauthenticated},
		"no permission":             {asked{w.eve.http, w.url + "/mcp", nil, ""}, http.StatusForbidden, reason.PermissionDenied},
		"no row":                    {asked{w.alice.http, w.url + "/debug/everything", nil, ""}, http.StatusForbidden, reason.PermissionDenied},
		"another name (rebinding)":  {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Host": "evil.example"}, ""}, http.StatusForbidden, reason.PermissionDenied},
		"another name over TLS":     {asked{w.alice.http, w.url + "/mcp", map[string]string{"Host": "evil.example"}, ""}, http.StatusForbidden, reason.PermissionDenied},
		"another page":              {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Origin": "https://evil.example"}, ""}, http.StatusForbidden, reason.PermissionDenied},
		"a page of another port":    {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Origin": "http://127.0.0.1:1"}, ""}, http.StatusForbidden, reason.PermissionDenied},
		"a page of nowhere":         {asked{http.DefaultClient, w.agents + "/mcp", map[string]string{"Authorization": agent, "Origin": "null"}, ""}, http.StatusForbidden, reason.PermissionDenied},
		"too large":                 {asked{w.alice.http, w.url + "/mcp", nil, strings.Repeat("a", api.MaxMessage+1)}, http.StatusRequestEntityTooLarge, ""},
		"the API at the agents'":    {asked{http.DefaultClient, w.agents + "/palyra.v1.StatusService/GetStatus", map[string]string{"Authorization": agent}, "{}"}, http.StatusNotFound, ""},
	} {
		before := w.audit.count()
		res, body := c.answer(t)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, body, c.status)
			continue
		}
		if c.code == "" {
			continue
		}
		if got := code(t, body); got != c.code {
			t.Errorf("%s: %s, want %s", name, got, c.code)
		}
		if w.audit.count() != before+1 {
			t.Errorf("%s: the refusal is not journaled", name)
		}
		if challenge := res.Header.Get("WWW-Authenticate"); strings.HasPrefix(challenge, `Bearer realm="palyra"`) != (c.code == reason.Unauthenticated) {
			t.Errorf("%s: challenged with %q", name, challenge)
		}
	}
	if _, body := (asked{w.alice.http, w.url + "/mcp", nil, "b"}).answer(t); body != "user:alice b" {
		t.Errorf("the handler saw %q", body)
	}
	res := must.Get(http.Get(w.agents + "/approvals/x"))(t)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusTeapot {
		t.Errorf("a route for anybody: %d", res.StatusCode)
	}
}

func TestGuardedRoutesAreLimited(t *testing.T) {
	t.Parallel()
	w := withSurfaces(t, func(w *world) {
		l := limit.Limit{PerSecond: 0.001, Burst: 2}
		w.limits[api.LimitToolCall] = limit.Rates{Each: l, Global: limit.Limit{PerSecond: 1000, Burst: 1000}}
	})
	for n, want := range []int{http.StatusTeapot, http.StatusTeapot, http.StatusTooManyRequests} {
		res, body := (asked{w.alice.http, w.url + "/mcp", nil, ""}).answer(t)
		if res.StatusCode != want {
			t.Errorf("request %d: %d %s", n, res.StatusCode, body)
		}
		if want == http.StatusTooManyRequests && (code(t, body) != reason.RateLimited || res.Header.Get("Retry-After") == "") {
			t.Errorf("limited with %s %v", body, res.Header)
		}
	}
}

// An error of a guarded route has the same form as an error of the API's methods.
func TestErrorsHaveTheShapeOfTheAPI(t *testing.T) {
	t.Parallel()
	w := withSurfaces(t)
	_, surface := (asked{http.DefaultClient, w.agents + "/mcp", nil, ""}).answer(t)
	_, method := (asked{w.connect("", nil).http, w.url + "/palyra.v1.StatusService/GetStatus", map[string]string{"Content-Type": "application/json"}, "{}"}).answer(t)
	var a, b bytes.Buffer
	must.Do(t, json.Indent(&a, []byte(surface), "", " "))
	must.Do(t, json.Indent(&b, []byte(method), "", " "))
	if a.String() != b.String() {
		t.Errorf("the route says\n%s\nthe method\n%s", a.String(), b.String())
	}
}
