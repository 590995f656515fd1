package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/rpc"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity"
	"palyra/internal/identity/login/logintest"
	"palyra/internal/surface/api"
	"palyra/internal/surface/console"
)

// openConsole creates the console of the world. serveConsole serves it once the API is
// available.
func (w *world) openConsole() *console.Console {
	w.t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0"))(w.t)
	w.t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Do(w.t, err)
	w.consoleAt = l
	w.console = must.Get(console.New(console.Config{
		Origin: "http://palyra-test.localhost:" + port, Members: w.identity.Callers,
		Journal: func(ctx context.Context, drafts ...event.Draft) error {
			_, err := w.journal.Append(ctx, drafts...)
			return err
		},
		Allow:   func(string) (bool, time.Duration) { return true, 0 },
		Refused: w.audit.Refused, Idle: time.Hour, Life: 12 * time.Hour, Log: slog.New(slog.DiscardHandler),
		Provider: w.logins, LogOut: w.identity.Logins.LogOut,
		Files: fstest.MapFS{"index.html": {Data: []byte("<title>console</title>")}},
	}))(w.t)
	return w.console
}

// serveConsole serves the console at its origin.
func (w *world) serveConsole() {
	w.t.Helper()
	server := &httptest.Server{Listener: w.consoleAt, Config: &http.Server{Handler: w.console.Site(api.Listed(w.console.Handlers()), w.server.Console()), ReadHeaderTimeout: time.Minute}}
	server.Start()
	w.t.Cleanup(func() {
		w.stopping()
		server.CloseClientConnections()
		server.Close()
	})
	w.console.Sessions.OnEnd(func(s console.Session, why *reason.Error) { w.server.EndSession(s.Device, s.ID, why) })
	w.identity.OpenWork.OnEnd(func(d identity.Device, _ *reason.Error) {
		if d.Revoked() {
			w.console.EndDevice(context.Background(), d.ID, d.RevokedBy, "its device was revoked")
		}
	})
}

// page is a page of the console in a browser that is logged in.
type page struct {
	w                      *world
	cookie, secret, origin string
	id                     string
}

// RoundTrip implements http.RoundTripper: it adds a browser's headers and resolves *.localhost.
func (p *page) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Origin", p.origin)
	if p.secret != "" {
		r.Header.Set(console.SecretHeader, p.secret)
	}
	if p.cookie != "" {
		r.Header.Set("Cookie", p.cookie)
	}
	t := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, p.w.consoleAt.Addr().String())
	}}
	return t.RoundTrip(r)
}

func (p *page) http() *http.Client { return &http.Client{Transport: p} }

func (p *page) post(path, body string) *http.Response {
	p.w.t.Helper()
	r := must.Get(http.NewRequestWithContext(p.w.t.Context(), http.MethodPost, p.w.console.Origin+path, strings.NewReader(body)))(p.w.t)
	r.Header.Set("Content-Type", "application/json")
	res := must.Get(p.http().Do(r))(p.w.t)
	p.w.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// enter logs a member in.
func (w *world) enter(c *client) *page {
	w.t.Helper()
	made := must.Get(palyrav1connect.NewConsoleServiceClient(c.http, w.url).CreateConsoleLogin(w.t.Context(), &palyrav1.CreateConsoleLoginRequest{}))(w.t)
	_, token, _ := strings.Cut(made.GetUrl(), "#token=")
	p := &page{w: w, origin: w.console.Origin}
	p.exchangeLink(token)
	return p
}

// exchangeLink exchanges the token of a link.
func (p *page) exchangeLink(token string) {
	w := p.w
	w.t.Helper()
	res := p.post("/console/v1/login", `{"token":"`+token+`"}`)
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("login: %d %s", res.StatusCode, must.Get(io.ReadAll(res.Body))(w.t))
	}
	var answer struct {
		Secret    string
		SessionID string `json:"session_id"`
	}
	must.Do(w.t, json.NewDecoder(res.Body).Decode(&answer))
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	p.cookie, p.secret, p.id = cookie, answer.Secret, answer.SessionID
}

func (p *page) whoami() (*palyrav1.WhoamiResponse, error) {
	return palyrav1connect.NewConsoleServiceClient(p.http(), p.w.console.Origin).Whoami(p.w.t.Context(), &palyrav1.WhoamiRequest{})
}

func TestConsoleSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	p := w.enter(w.bob)
	who := must.Get(p.whoami())(t)
	if who.GetPrincipal() != "user:bob" || who.GetSurface() != "console" || who.GetDeviceId() != w.bob.device || !who.GetSession().GetCurrent() || who.GetSession().GetSessionId() != p.id {
		t.Errorf("whoami %v", who)
	}
	has := func(p string) bool {
		return strings.Contains(" "+strings.Join(who.GetPermissions(), " ")+" ", " "+p+" ")
	}
	if !has("approval.decide") || has("access.write") {
		t.Errorf("permissions %v", who.GetPermissions())
	}
	// A device can make the same request, and has no session.
	own := must.Get(palyrav1connect.NewConsoleServiceClient(w.bob.http, w.url).Whoami(t.Context(), &palyrav1.WhoamiRequest{}))(t)
	if own.GetSurface() != "grpc" || own.GetSession() != nil {
		t.Errorf("whoami of a device %v", own)
	}
	events := must.Get(w.journal.List(t.Context(), journal.Filter{Code: "PAL-I18"}))(t)
	if len(events) != 2 || events[0].Actor != "user:bob" {
		t.Errorf("events %v", events)
	}
}

// TestConsoleRestrictions: a console session may not use the methods that the table excludes.
// Control: the same member may use them with its device.
func TestConsoleRestrictions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	p := w.enter(w.alice)
	withheld := must.Get(p.whoami())(t).GetWithheldMethods()
	if len(withheld) < 15 {
		t.Fatalf("withheld %v", withheld)
	}
	for _, m := range append(withheld, "NoService/Method") {
		res := p.post("/palyra.v1."+m, "{}")
		// A stream responds with 200 and has the error at its end, or refuses a request that is not a
		// stream.
		if text := must.Get(io.ReadAll(res.Body))(t); res.StatusCode == http.StatusOK {
			t.Errorf("%s: %d %s", m, res.StatusCode, text)
		}
	}
	_, err := palyrav1connect.NewAccessServiceClient(p.http(), w.console.Origin).AddMember(t.Context(), &palyrav1.AddMemberRequest{Name: "mallory", Kind: "user", Roles: []string{"auditor"}, CertificateRequest: csr(t)})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a member by the console: %v", err)
	}
	if _, err := palyrav1connect.NewConsoleServiceClient(p.http(), w.console.Origin).CreateConsoleLogin(t.Context(), &palyrav1.CreateConsoleLoginRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a link by the console: %v", err)
	}
	// Control: the device may.
	must.Get(palyrav1connect.NewAccessServiceClient(w.alice.http, w.url).AddMember(t.Context(), &palyrav1.AddMemberRequest{Name: "mallory", Kind: "user", Roles: []string{"auditor"}, CertificateRequest: csr(t)}))(t)
}

func csr(t *testing.T) []byte {
	_, text := request(t)
	block, _ := pem.Decode(text)
	return block.Bytes
}

// Without a session, no method of the API is available at the console's origin, public methods
// included.
func TestConsoleNeedsASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	p := w.enter(w.bob)
	must.Get(p.whoami())(t) // control
	for name, attack := range map[string]func(*page){
		"cookie alone":    func(p *page) { p.secret = "" },
		"secret alone":    func(p *page) { p.cookie = "" },
		"another port":    func(p *page) { p.origin = "http://palyra-test.localhost:1" },
		"a forged origin": func(p *page) { p.origin = "https://evil.example" },
	} {
		other := *p
		attack(&other)
		if _, err := other.whoami(); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
		for procedure := range api.Methods() {
			if !strings.HasPrefix(procedure, "/palyra.v1.") {
				continue
			}
			if res := other.post(procedure, "{}"); res.StatusCode == http.StatusOK {
				t.Errorf("%s: %s answered %d", name, procedure, res.StatusCode)
			}
		}
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.console.Origin+"/palyra.v1.ConsoleService/Whoami", bytes.NewReader([]byte("{}"))))(t)
	r.Host, r.URL.Host = "evil.example", "evil.example"
	if res := must.Get(p.http().Do(r))(t); res.StatusCode != http.StatusForbidden {
		t.Errorf("a rebinding name: %d", res.StatusCode)
	}
}

// A session's streams end with the session, whichever way it ends.
func TestConsoleStreamsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *page){
		"logout": func(w *world, p *page) {
			if res := p.post("/console/v1/logout", ""); res.StatusCode != http.StatusNoContent {
				w.t.Errorf("logout: %d", res.StatusCode)
			}
		},
		"revocation": func(w *world, p *page) {
			must.Get(palyrav1connect.NewConsoleServiceClient(w.alice.http, w.url).RevokeConsoleSession(w.t.Context(), &palyrav1.RevokeConsoleSessionRequest{SessionId: p.id}))(w.t)
		},
		"the device is revoked": func(w *world, _ *page) {
			must.Get(w.identity.Devices.Revoke(w.t.Context(), identity.Daemon(), w.bob.device, "lost", true))(w.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serveConsole()
			p, other := w.enter(w.bob), w.enter(w.alice)
			watch := func(p *page) *rpc.ServerStream[*palyrav1.WatchApprovalsResponse] {
				s := must.Get(palyrav1connect.NewApprovalsServiceClient(p.http(), w.console.Origin).WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
				if !s.Receive() {
					t.Fatalf("the stream did not open: %v", s.Err())
				}
				return s
			}
			stream, kept := watch(p), watch(other)
			end(w, p)
			for stream.Receive() { // until the stream ends
			}
			if err := stream.Err(); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("the stream ended with %v", err)
			}
			if _, err := p.whoami(); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("afterwards: %v", err)
			}
			// Control: the session of another member continues.
			must.Get(other.whoami())(t)
			_ = kept.Close()
		})
	}
}

func TestConsoleSessionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	bob, alice := w.enter(w.bob), w.enter(w.alice)
	list := func(p *page) int {
		res := must.Get(palyrav1connect.NewConsoleServiceClient(p.http(), w.console.Origin).ListConsoleSessions(t.Context(), &palyrav1.ListConsoleSessionsRequest{}))(t)
		return len(res.GetSessions())
	}
	if list(bob) != 1 || list(alice) != 2 {
		t.Errorf("bob sees %d, alice %d", list(bob), list(alice))
	}
	revoke := func(p *page, id string) error {
		_, err := palyrav1connect.NewConsoleServiceClient(p.http(), w.console.Origin).RevokeConsoleSession(t.Context(), &palyrav1.RevokeConsoleSessionRequest{SessionId: id})
		return err
	}
	if err := revoke(bob, alice.id); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob ends alice's: %v", err)
	}
	if err := revoke(bob, "01JNOSUCHSESSION"); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob ends one that is not there: %v", err)
	}
	must.Do(t, revoke(alice, bob.id))
	if list(alice) != 1 {
		t.Error("bob's session is still there")
	}
}

// watch opens the console stream of a page.
func (p *page) watch(after int64) *rpc.ServerStream[*palyrav1.WatchConsoleResponse] {
	p.w.t.Helper()
	return must.Get(palyrav1connect.NewConsoleServiceClient(p.http(), p.w.console.Origin).WatchConsole(p.w.t.Context(), &palyrav1.WatchConsoleRequest{ResumeAfter: after}))(p.w.t)
}

// until receives messages until one matches.
func until(t *testing.T, s *rpc.ServerStream[*palyrav1.WatchConsoleResponse], is func(*palyrav1.WatchConsoleResponse) bool) *palyrav1.WatchConsoleResponse {
	t.Helper()
	last := int64(0)
	for s.Receive() {
		if s.Msg().GetSequence() < last {
			t.Errorf("the number went back from %d to %d", last, s.Msg().GetSequence())
		}
		if last = s.Msg().GetSequence(); is(s.Msg()) {
			return s.Msg()
		}
	}
	t.Fatalf("the stream ended: %v", s.Err())
	return nil
}

func TestWatchConsole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	bob, dan := w.enter(w.bob), w.enter(w.dan)
	ofBob, ofDan := bob.watch(0), dan.watch(0)
	first := until(t, ofBob, func(m *palyrav1.WatchConsoleResponse) bool { return m.GetStatus() != nil })
	until(t, ofDan, func(m *palyrav1.WatchConsoleResponse) bool { return m.GetStatus() != nil })
	// A call of the agent requires an approval. Members that may read approvals get it, with the
	// permitted actions.
	asked := make(chan error, 1)
	go func() {
		_, err := w.coder.call(running())
		asked <- err
	}()
	ask := until(t, ofBob, func(m *palyrav1.WatchConsoleResponse) bool { return m.GetApproval() != nil })
	if a := ask.GetApproval(); a.GetRequestedBy() != "agent:coder" || a.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || !a.GetYou().GetMayDecide() {
		t.Errorf("the ask is %v", a)
	}
	// The vote has the session's surface, regardless of the surface in the request.
	decided := must.Get(palyrav1connect.NewApprovalsServiceClient(bob.http(), w.console.Origin).DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
		ApprovalId: ask.GetApproval().GetApprovalId(), Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE, ShownDigest: ask.GetApproval().GetCallDigest(), Surface: "cli",
	}))(t)
	if v := decided.GetApproval().GetVotes(); len(v) != 1 || v[0].GetSurface() != "console" {
		t.Errorf("votes %v", v)
	}
	done := until(t, ofBob, func(m *palyrav1.WatchConsoleResponse) bool {
		return m.GetApproval() != nil && m.GetApproval().GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING
	})
	must.Check(t, <-asked)
	// A stream that resumes after a sequence number repeats the later messages.
	_ = ofBob.Close()
	again := bob.watch(first.GetSequence())
	if m := until(t, again, func(m *palyrav1.WatchConsoleResponse) bool { return m.GetApproval() != nil }); m.GetSequence() != ask.GetSequence() {
		t.Errorf("it goes on at %d, and the ask was %d", m.GetSequence(), ask.GetSequence())
	}
	_ = again.Close()
	// A stream that resumes at a number far ahead gets a reset.
	far := bob.watch(done.GetSequence() + 1_000_000)
	until(t, far, func(m *palyrav1.WatchConsoleResponse) bool { return m.GetReset_() != nil })
	_ = far.Close()
	// dan may read neither approvals nor others' calls. The logout ends the stream before it sends
	// any.
	dan.post("/console/v1/logout", "")
	for ofDan.Receive() {
		if m := ofDan.Msg(); m.GetApproval() != nil || m.GetChange() != nil && m.GetChange().GetActor() != "user:dan" || m.GetJournalHead() != nil {
			t.Errorf("dan is told %v", m)
		}
	}
	if err := ofDan.Err(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("dan's stream ended with %v", err)
	}
}

func TestSettingsAndChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serveConsole()
	alice, bob := w.enter(w.alice), w.enter(w.bob)
	ask := func(p *page) palyrav1connect.ConsoleServiceClient {
		return palyrav1connect.NewConsoleServiceClient(p.http(), w.console.Origin)
	}
	settings := must.Get(ask(alice).GetSettings(t.Context(), &palyrav1.GetSettingsRequest{}))(t)
	if len(settings.GetSettings()) < 50 || settings.GetSettings()[0].GetSource() != "default" {
		t.Errorf("settings %v", settings)
	}
	if _, err := ask(bob).GetSettings(t.Context(), &palyrav1.GetSettingsRequest{}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("an operator reads settings: %v", err)
	}
	// Only one examination runs at a time.
	in, out := make(chan struct{}), make(chan struct{})
	w.examining = func() { close(in); <-out }
	first := make(chan error, 1)
	go func() {
		_, err := ask(alice).Examine(t.Context(), &palyrav1.ExamineRequest{})
		first <- err
	}()
	<-in
	if _, err := ask(alice).Examine(t.Context(), &palyrav1.ExamineRequest{}); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a second examination: %v", err)
	}
	close(out)
	must.Check(t, <-first)
	w.examining = nil
	if res := must.Get(ask(alice).Examine(t.Context(), &palyrav1.ExamineRequest{}))(t); len(res.GetExams()) != 1 || res.GetExams()[0].GetCheck() != "clock" {
		t.Errorf("exams %v", res)
	}
}

// get follows a browser's request to a path, and returns the redirect target.
func (p *page) get(path string) *url.URL {
	p.w.t.Helper()
	c := p.http()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res := must.Get(c.Get(p.w.console.Origin + path))(p.w.t)
	must.Do(p.w.t, res.Body.Close())
	if set := res.Header.Get("Set-Cookie"); set != "" {
		p.cookie, _, _ = strings.Cut(set, ";")
	}
	if res.Header.Get("Location") == "" {
		p.w.t.Fatalf("%s: %d", path, res.StatusCode)
	}
	return must.Get(res.Location())(p.w.t)
}

// A user logs in at the identity provider, gets a session, and is logged out of both.
func TestConsoleByProvider(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "")
	provider.SignIn(logintest.Person{Subject: "s-fay", Name: "fay", Groups: []string{"approvers"}})
	w := newWorld(t, withLoginProvider(provider))
	w.serveConsole()
	p := &page{w: w, origin: w.console.Origin}
	back := redirected(t, p.get("/console/v1/login/oidc").String()).Encode()
	// Another browser cannot complete the login, because it would get the first user's session.
	other := &page{w: w, origin: w.console.Origin}
	if to := other.get("/console/v1/callback?" + back); !strings.Contains(to.Fragment, "LOGIN_REFUSED") {
		t.Errorf("another browser is sent to %s", to)
	}
	to := p.get("/console/v1/callback?" + back)
	token, ok := strings.CutPrefix(to.Fragment, "token=")
	if !ok {
		t.Fatalf("sent to %s", to)
	}
	if again := p.get("/console/v1/callback?" + back); strings.Contains(again.Fragment, "token=") {
		t.Errorf("a second answer is sent to %s", again)
	}
	p.cookie = ""
	p.exchangeLink(token)
	who := must.Get(p.whoami())(t)
	if who.GetPrincipal() != "user:fay" || who.GetSession().GetEndsAt().AsTime().After(time.Now().Add(time.Hour)) {
		t.Errorf("whoami %v", who)
	}
	p.post("/console/v1/logout", "")
	if _, err := p.whoami(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("logged out: %v", err)
	}
	if d, known := w.identity.Directory.Device(who.GetDeviceId()); !known || time.Now().Before(d.LoginUntil) {
		t.Errorf("the login goes on until %s", d.LoginUntil)
	}
}
