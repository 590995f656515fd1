package console_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/console"
)

const origin = "http://palyra-test.localhost:7145"

// members has one device of alice, until end removes it.
type members struct {
	mu   sync.Mutex
	gone bool
}

func (m *members) SessionCaller(device string, _ access.Transport) (access.Caller, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "device %s was revoked", device)
	}
	return access.Caller{Principal: access.User("alice"), OnBehalfOf: access.User("alice"), DeviceID: device}, nil
}

func (m *members) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
}

// world is a console, and an API behind it that responds with the caller's principal.
type world struct {
	*console.Console
	t       *testing.T
	members *members
	site    http.Handler
	now     time.Time
	events  []event.Code
	full    bool
	refused int
	ended   []string
	// guesses is the number of failed logins that remain; it is counted down. An initial 0 means
	// no limit.
	guesses int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, members: &members{}, now: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)}
	w.Console = must.Get(console.New(console.Config{
		Origin: origin, Hosts: func(name string) bool { return name == "gateway.test" }, Members: w.members,
		Journal: func(_ context.Context, drafts ...event.Draft) error {
			if w.full {
				return reason.Errorf(reason.JournalUnavailable, "the disk is full")
			}
			for _, d := range drafts {
				w.events = append(w.events, d.Code)
			}
			return nil
		},
		Allow: func(string) (bool, time.Duration) {
			w.guesses--
			return w.guesses != 0, time.Second
		},
		Refused: func(context.Context, string, string, reason.Code) { w.refused++ },
		Idle:    time.Hour, Life: 12 * time.Hour, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return w.now },
		Files: fstest.MapFS{
			"index.html": {Data: []byte("<title>console</title>")}, "assets/main-1.js": {Data: []byte("1")}, "assets/wasm-worker-1.js": {Data: []byte("2")},
		},
	}))(t)
	w.Sessions.OnEnd(func(s console.Session, _ *reason.Error) { w.ended = append(w.ended, s.ID) })
	mux := http.NewServeMux()
	for pattern, h := range w.Handlers() {
		mux.Handle(pattern, h)
	}
	w.site = w.Site(mux, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		visit, ok := console.VisitOf(r.Context())
		if !ok {
			t.Error("the API was reached without a visit")
		}
		caller, _, err := visit.Look()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(rw, caller.Principal.String()+" "+string(caller.Surface))
	}))
	return w
}

// browser sends requests like a browser.
type browser struct {
	w               *world
	cookies         map[string]string
	secret          string
	origin, host    string
	background      string
	refusesTheProbe bool
}

func (w *world) browser() *browser {
	return &browser{w: w, cookies: map[string]string{}, origin: origin, host: strings.TrimPrefix(origin, "http://")}
}

func (b *browser) do(method, path, body string) *http.Response {
	b.w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = b.host
	if b.origin != "" && method != http.MethodGet {
		r.Header.Set("Origin", b.origin)
	}
	if b.background != "" {
		r.Header.Set(console.BackgroundHeader, b.background)
	}
	if b.secret != "" {
		r.Header.Set(console.SecretHeader, b.secret)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	rec := httptest.NewRecorder()
	b.w.site.ServeHTTP(rec, r)
	res := rec.Result()
	for _, c := range res.Cookies() {
		switch {
		case c.Secure && b.refusesTheProbe:
		case c.MaxAge < 0:
			delete(b.cookies, c.Name)
		default:
			b.cookies[c.Name] = c.Value
		}
	}
	return res
}

// call calls the API, and returns the status and the principal.
func (b *browser) call() (int, string) {
	b.w.t.Helper()
	res := b.do(http.MethodPost, "/palyra.v1.ConsoleService/Whoami", "{}")
	return res.StatusCode, string(must.Get(io.ReadAll(res.Body))(b.w.t))
}

func (w *world) link() (token string) {
	w.t.Helper()
	l := must.Get(w.Link(w.t.Context(), access.Caller{Principal: access.User("alice"), DeviceID: "D1", Paired: true, Surface: access.SurfaceGRPC}))(w.t)
	base, token, ok := strings.Cut(l.URL, "#token=")
	if base != origin+"/login" || !ok || len(token) < 43 {
		w.t.Fatalf("link %q", l.URL)
	}
	return token
}

// login opens a link and returns the status.
func (b *browser) login(token string) int {
	b.w.t.Helper()
	b.do(http.MethodGet, "/login", "")
	res := b.do(http.MethodPost, "/console/v1/login", `{"token":"`+token+`"}`)
	if res.StatusCode == http.StatusOK {
		var answer struct{ Secret string }
		must.Do(b.w.t, json.NewDecoder(res.Body).Decode(&answer))
		b.secret = answer.Secret
	}
	return res.StatusCode
}

func (w *world) loggedIn() *browser {
	w.t.Helper()
	b := w.browser()
	if got := b.login(w.link()); got != http.StatusOK {
		w.t.Fatalf("login: %d", got)
	}
	if code, who := b.call(); code != http.StatusOK || who != "user:alice console" {
		w.t.Fatalf("the session is %d %q", code, who)
	}
	return b
}

// TestIncompleteSession: each attack lacks a part of the session that the control, the unchanged
// browser, has.
func TestIncompleteSession(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*browser){
		"the cookie alone":              func(b *browser) { b.secret = "" },
		"the cookie and a wrong secret": func(b *browser) { b.secret = strings.Repeat("A", 43) },
		"the secret alone":              func(b *browser) { clear(b.cookies) },
		"a page on another local port":  func(b *browser) { b.origin = "http://palyra-test.localhost:9999" },
		"a page of localhost":           func(b *browser) { b.origin = "http://localhost:7145" },
		"a forged origin":               func(b *browser) { b.origin = "https://evil.example" },
		"an origin that is null":        func(b *browser) { b.origin = "null" },
		"no origin at all":              func(b *browser) { b.origin = "" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.loggedIn() // control: with the complete session, the API answers
			attack(b)
			if code, who := b.call(); code != http.StatusUnauthorized {
				t.Errorf("%d %q", code, who)
			}
		})
	}
}

// A session cannot be used with another session's secret.
func TestSecretOfAnotherSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.loggedIn(), w.loggedIn()
	one.secret = other.secret
	if code, _ := one.call(); code != http.StatusUnauthorized {
		t.Errorf("%d", code)
	}
}

func TestOtherHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.loggedIn()
	for host, want := range map[string]int{
		"evil.example:7145": http.StatusForbidden, "palyra-other.localhost:7145": http.StatusForbidden, "palyra-test.localhost:7146": http.StatusForbidden, "": http.StatusForbidden,
		"127.0.0.1:7145": http.StatusTemporaryRedirect, "localhost:7145": http.StatusTemporaryRedirect, "[::1]:7145": http.StatusTemporaryRedirect, "gateway.test:7145": http.StatusTemporaryRedirect,
		"palyra-test.localhost:7145": http.StatusOK,
	} {
		b.host = host
		res := b.do(http.MethodGet, "/approvals/01J", "")
		if res.StatusCode != want {
			t.Errorf("GET at %q: %d", host, res.StatusCode)
		}
		if to := res.Header.Get("Location"); want == http.StatusTemporaryRedirect && to != origin+"/approvals/01J" {
			t.Errorf("%q leads to %q", host, to)
		}
		if code, _ := b.call(); host != "palyra-test.localhost:7145" && code != http.StatusForbidden {
			t.Errorf("the API at %q: %d", host, code)
		}
	}
	// Control: with the console's own name, the request is accepted.
	b.host = strings.TrimPrefix(origin, "http://")
	if code, _ := b.call(); code != http.StatusOK {
		t.Errorf("the console's own name: %d", code)
	}
}

func TestLoginOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.link()
	if got := w.browser().login(token); got != http.StatusOK { // control
		t.Fatalf("first: %d", got)
	}
	if got := w.browser().login(token); got != http.StatusUnauthorized {
		t.Errorf("second: %d", got)
	}
	late := w.link()
	w.now = w.now.Add(time.Minute)
	if got := w.browser().login(late); got != http.StatusUnauthorized {
		t.Errorf("after a minute: %d", got)
	}
	if got := w.browser().login("guess"); got != http.StatusUnauthorized {
		t.Errorf("a guess: %d", got)
	}
	foreign := w.browser()
	foreign.origin = "http://localhost:3000"
	fresh := w.link()
	if got := foreign.login(fresh); got != http.StatusForbidden {
		t.Errorf("a page of another origin: %d", got)
	}
	// The refused attempt did not consume the link.
	if got := w.browser().login(fresh); got != http.StatusOK {
		t.Errorf("the link after that: %d", got)
	}
	revoked := w.link()
	w.members.end()
	if got := w.browser().login(revoked); got != http.StatusUnauthorized {
		t.Errorf("a device that was revoked: %d", got)
	}
}

// TestGuessesDoNotBlockLogin: a client that guesses tokens is refused after some attempts, while a
// valid link still works from the same address.
func TestGuessesDoNotBlockLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.guesses = 3
	for _, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
		if got := w.browser().login("guess"); got != want {
			t.Errorf("a guess: %d, want %d", got, want)
		}
	}
	w.guesses = 1
	if got := w.browser().login(w.link()); got != http.StatusOK {
		t.Errorf("a good link: %d", got)
	}
	if got := w.browser().login("guess"); got != http.StatusTooManyRequests { // control
		t.Errorf("another guess: %d", got)
	}
}

func TestLinkRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := access.Caller{Principal: access.User("alice"), DeviceID: "D1", Paired: true, Surface: access.SurfaceGRPC}
	must.Get(w.Link(t.Context(), good))(t) // control
	for name, change := range map[string]func(*access.Caller){
		"a token":       func(c *access.Caller) { c.Token = &access.TokenBounds{} },
		"a session":     func(c *access.Caller) { c.Surface = access.SurfaceConsole },
		"an agent":      func(c *access.Caller) { c.Principal = access.Agent("bot") },
		"no device key": func(c *access.Caller) { c.Paired = false },
	} {
		c := good
		change(&c)
		if _, err := w.Link(t.Context(), c); reason.Of(err) != reason.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	over := good
	over.Paired, over.Transport = false, access.TransportSocket
	must.Get(w.Link(t.Context(), over))(t)
}

func TestEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *browser){
		"logout": func(w *world, b *browser) {
			if res := b.do(http.MethodPost, "/console/v1/logout", ""); res.StatusCode != http.StatusNoContent {
				w.t.Errorf("logout: %d", res.StatusCode)
			}
		},
		"revocation": func(w *world, _ *browser) {
			must.Get(w.Sessions.Revoke(w.t.Context(), w.Sessions.List()[0].ID, access.User("bob"), "revoked"))(w.t)
		},
		"its device":          func(w *world, _ *browser) { w.EndDevice(w.t.Context(), "D1", access.User("bob"), "revoked") },
		"its member":          func(w *world, _ *browser) { w.members.end() },
		"nobody uses it":      func(w *world, _ *browser) { w.now = w.now.Add(time.Hour) },
		"another login there": func(w *world, b *browser) { b.secret = ""; b.login(w.link()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			b := w.loggedIn()
			kept := *b
			kept.cookies = map[string]string{}
			for n, v := range b.cookies {
				kept.cookies[n] = v
			}
			id := w.Sessions.List()[0].ID
			end(w, b)
			if code, who := kept.call(); code != http.StatusUnauthorized {
				t.Errorf("after the end: %d %q", code, who)
			}
			if len(w.ended) != 1 || w.ended[0] != id || w.events[len(w.events)-1] != event.ConsoleEnded && name != "another login there" {
				t.Errorf("ended %v, events %v", w.ended, w.events)
			}
		})
	}
}

// A session stays valid while it is used, but not beyond its lifetime. Background requests of a
// page are not use.
func TestIdleAndLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.loggedIn()
	for range 23 {
		w.now = w.now.Add(31 * time.Minute)
		if code, _ := b.call(); code != http.StatusOK {
			t.Fatalf("used after 31 minutes, at %s: %d", w.now, code)
		}
	}
	w.now = w.now.Add(31 * time.Minute)
	if code, _ := b.call(); code != http.StatusUnauthorized {
		t.Errorf("after 12 hours: %d", code)
	}
}

// With a full disk, a login fails, and a logout still ends the session.
func TestJournalUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, late := w.loggedIn(), w.link()
	w.full = true
	if got := w.browser().login(late); got != http.StatusServiceUnavailable {
		t.Errorf("login: %d", got)
	}
	if res := b.do(http.MethodPost, "/console/v1/logout", ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("logout: %d", res.StatusCode)
	}
	if code, _ := b.call(); code != http.StatusUnauthorized {
		t.Errorf("after logout: %d", code)
	}
}

// A browser that refuses the cookie's prefix over plain HTTP gets a cookie without it.
func TestCookies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.loggedIn()
	if b.cookies["__Host-palyra"] == "" || b.cookies["palyra-session"] != "" {
		t.Errorf("cookies %v", b.cookies)
	}
	plain := w.browser()
	plain.refusesTheProbe = true
	if got := plain.login(w.link()); got != http.StatusOK || plain.cookies["palyra-session"] == "" || plain.cookies["__Host-palyra"] != "" {
		t.Errorf("login %d, cookies %v", got, plain.cookies)
	}
	if code, _ := plain.call(); code != http.StatusOK {
		t.Errorf("the plain cookie: %d", code)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	for path, want := range map[string]string{"/": "text/html", "/approvals/01J": "text/html", "/assets/main-1.js": "text/javascript", "/assets/wasm-worker-1.js": "text/javascript"} {
		res := b.do(http.MethodGet, path, "")
		csp := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), want) || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
		}
		if wasm := strings.Contains(csp, "wasm-unsafe-eval"); wasm != strings.Contains(path, "wasm-worker") || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe-inline") {
			t.Errorf("%s: %s", path, csp)
		}
		if !strings.HasPrefix(path, "/assets/") && (!strings.Contains(csp, "frame-ancestors 'none'") || res.Header.Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v", path, res.Header)
		}
	}
	for _, path := range []string{"/assets/none.js", "/none.js", "/console/v1/none"} {
		if res := b.do(http.MethodGet, path, ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// TestPathWithADot: the path of a screen returns the console, also if a name in it contains a
// dot. A missing file is not found.
func TestPathWithADot(t *testing.T) {
	t.Parallel()
	b := newWorld(t).browser()
	for path, want := range map[string]int{
		"/tools/process.run": http.StatusOK, "/members/user:jane.doe": http.StatusOK, "/vault/vault:%2F%2Fuser%2Fjane.doe%2Fkey.pem": http.StatusOK,
		"/servers/io.github.example.js": http.StatusOK, "/skills/palyra.example": http.StatusOK,
		"/assets/main-2.js": http.StatusNotFound, "/favicon.ico": http.StatusNotFound, "/.well-known/openid-configuration": http.StatusNotFound, "/console/v1/none": http.StatusNotFound,
	} {
		res := b.do(http.MethodGet, path, "")
		if res.StatusCode != want || want == http.StatusOK && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %v, want %d", path, res.StatusCode, res.Header, want)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"http://localhost:7145": true, "http://palyra-a.localhost:1": true, "https://palyra.example.com": true, "https://palyra.example.com:7145": true,
		"": false, "http://127.0.0.1:7145": false, "http://palyra.example.com": false, "https://10.0.0.1:1": false, "http://localhost:7145/": false,
		"ftp://localhost": false, "https://Palyra.example.com": false, "http://localhost.example.com": false,
	} {
		if _, err := console.ParseOrigin(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
