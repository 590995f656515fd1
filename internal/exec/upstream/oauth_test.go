//go:build unix

package upstream_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/vault"
	"palyra/internal/vault/vaulttest"
)

const redirect = "http://127.0.0.1:4711/callback"

// loginWorld is a gateway with a vault, and a server that requires a login.
type loginWorld struct {
	*world

	place  *place
	logins *oauth.Service
	vault  *vault.Service
	store  *vaulttest.Store
	events []event.Draft
	at     time.Time
	person access.Caller
	log    *strings.Builder
}

// judge permits users every act on their own secrets, and permits agents to use these.
type judge struct{}

// Permit implements vault.Judge.
func (judge) Permit(c vault.Borrower, p access.Permission, ref vault.Ref) error {
	if owner := ref.Principal(); owner.IsZero() || owner == c.Principal || p == access.PermSecretLease && owner == c.OnBehalfOf {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "%s may not %s", c.Principal, p)
}

func newLoginWorld(t *testing.T) *loginWorld {
	t.Helper()
	w := &loginWorld{place: newPlace(t), store: vaulttest.NewStore(t), at: time.Now(), log: &strings.Builder{}}
	w.person = access.Caller{Principal: gatewaytest.Agent.OnBehalfOf, OnBehalfOf: gatewaytest.Agent.OnBehalfOf}
	w.vault = must.Get(vault.New(vault.Config{
		Store: w.store, Keys: vault.NewWrapper(vaulttest.NewKeys(), w.store), Now: func() time.Time { return w.at },
		Judge: judge{},
	}))(t)
	w.logins = oauth.New(oauth.Config{
		May:     func(access.Caller, access.Permission) error { return nil },
		Journal: func(_ context.Context, e event.Draft) error { w.events = append(w.events, e); return nil },
		Roots:   w.place.roots(), Now: func() time.Time { return w.at },
	})
	w.logins.Serve(w.vault)
	w.world = newWorld(t, func(c *upstream.Config) {
		c.Logins, c.Roots, c.Log = w.logins, w.place.roots(), slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	return w
}

// Server returns the current declaration of the server.
func (w *loginWorld) Server(name string) (declared.Server, error) {
	state, err := w.Show(name)
	return state.Server, err
}

func (w *loginWorld) server(change ...func(*declared.OAuth)) declared.Server {
	s := declared.Server{Name: "there", URL: w.place.url(), OAuth: &declared.OAuth{Issuer: w.place.as.URL}}
	for _, c := range change {
		c(s.OAuth)
	}
	return s
}

// browse acts as the user's browser: it follows the page and returns the answer.
func (w *loginWorld) browse(page string) url.Values {
	w.t.Helper()
	res := must.Get(w.place.as.Client().Get(page))(w.t)
	var back map[string]string
	must.Do(w.t, json.NewDecoder(res.Body).Decode(&back))
	must.Do(w.t, res.Body.Close())
	q := url.Values{}
	for k, v := range back {
		q.Set(k, v)
	}
	return q
}

func (w *loginWorld) complete(id string, q url.Values) error {
	_, err := w.logins.Complete(w.t.Context(), w.person, oauth.Answer{ID: id, State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss")}, w.Server)
	return err
}

// logIn adds the server and logs the user in.
func (w *loginWorld) logIn(change ...func(*declared.OAuth)) {
	w.t.Helper()
	state := must.Get(w.Add(w.t.Context(), operator, w.server(change...)))(w.t)
	if !strings.Contains(state.Remedy, "palyra mcp login there") {
		w.t.Fatalf("before the login: %+v", state.Problem)
	}
	w.again()
	if _, err := w.Refresh(w.t.Context(), w.person, "there"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *loginWorld) again() {
	w.t.Helper()
	begun := must.Get(w.logins.Begin(w.t.Context(), w.person, must.Get(w.Server("there"))(w.t), redirect))(w.t)
	must.Do(w.t, w.complete(begun.ID, w.browse(begun.AuthorizationURL)))
}

// TestLogin performs the whole flow, and ends with a call of an agent that acts for the user
// who logged in.
func TestLogin(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.logIn()
	if got := resultText(t, w.works("there/hello", `{"name":"you"}`)); got != "hello you" {
		t.Errorf("said %q", got)
	}
	p := w.place
	if !slices.Equal(p.registered, []string{redirect}) {
		t.Errorf("registered %v", p.registered)
	}
	for _, q := range p.asked {
		if q.Get("resource") != p.url() || q.Get("code_verifier") == "" {
			t.Errorf("asked without resource or verifier: %v", q)
		}
	}
	for _, shown := range p.shown {
		if shown != "" && p.tokens[strings.TrimPrefix(shown, "Bearer ")] != p.url() {
			t.Errorf("the server was shown %q", shown)
		}
	}
	if len(w.events) != 1 || w.events[0].Code != event.UpstreamLoggedIn || w.events[0].Actor != w.person.Principal.String() {
		t.Errorf("journaled %+v", w.events)
	}
	// A caller receives a placeholder if a server includes its token in a result.
	echo := w.works("there/echo", `{}`)
	if got := resultText(t, echo); !strings.HasPrefix(got, "shown: Bearer palyra-sec-") {
		t.Errorf("the echo said %q", got)
	}
	w.hidesAfter(echo)
	w.hidesTokens()
	must.Do(t, w.logins.Logout(t.Context(), w.person, must.Get(w.Server("there"))(t)))
	if len(p.revoked) != 1 || p.refreshes[p.revoked[0]] == "" {
		t.Errorf("revoked %v", p.revoked)
	}
	if _, err := w.call("there/hello", `{}`); reason.Of(err) != reason.UpstreamLogin {
		t.Errorf("after the logout: %v", err)
	}
}

// hidesTokens searches for tokens in places that must not contain any. Control: the token
// endpoint, which has received them.
func (w *loginWorld) hidesTokens() {
	w.t.Helper()
	var text strings.Builder
	text.WriteString(w.log.String())
	for _, e := range w.events {
		text.Write(e.Payload)
	}
	for _, e := range slices.Concat(w.store.Events(), must.Get(w.db.Events(w.t.Context(), journal.Filter{Limit: 1000}))(w.t)) {
		text.Write(e.Payload)
	}
	for _, list := range []map[string]string{w.place.tokens, w.place.refreshes} {
		for token := range list {
			if strings.Contains(text.String(), token) {
				w.t.Errorf("the token %s is in a log or the journal", token)
			}
		}
	}
	if len(w.place.tokens) == 0 {
		w.t.Error("there was no token to look for")
	}
}

// TestRenewal renews a token that expires, and one that the server rejects. If that is
// impossible, the error asks the user to log in.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.logIn()
	refreshed := func() (n int) {
		for _, q := range w.place.asked {
			if q.Get("grant_type") == "refresh_token" {
				n++
			}
		}
		return n
	}
	w.works("there/hello", `{}`)
	if refreshed() != 0 {
		t.Error("a fresh token was renewed")
	}
	w.at = w.at.Add(time.Hour)
	w.works("there/hello", `{}`)
	if refreshed() != 1 {
		t.Errorf("renewed %d times when the token ended", refreshed())
	}
	w.place.forget(false)
	w.works("there/hello", `{}`)
	if refreshed() != 2 {
		t.Errorf("renewed %d times when the token was taken back", refreshed())
	}
	w.place.forget(true)
	r := w.fails("there/hello", `{}`, reason.UpstreamLogin)
	if !strings.Contains(r.Remedy, "palyra mcp login there") || strings.Contains(r.Message, "refresh-") {
		t.Errorf("told %q, %q", r.Message, r.Remedy)
	}
	w.hidesAfter(r)
	w.again()
	w.works("there/hello", `{}`)
}

func (w *loginWorld) hidesAfter(r tool.Report) {
	w.t.Helper()
	if text := r.Message + string(r.Result); strings.Contains(text, "access-") || strings.Contains(text, "refresh-") {
		w.t.Errorf("a token is in %s", text)
	}
}

func TestWithoutRefresh(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.place.noRefresh = true
	w.logIn()
	w.at = w.at.Add(2 * time.Hour)
	r := w.fails("there/hello", `{}`, reason.UpstreamLogin)
	if !strings.Contains(r.Message, "cannot be renewed") {
		t.Errorf("told %q", r.Message)
	}
}

// TestMembersApart: a member cannot use the login of another member, and a shared login serves
// all.
func TestMembersApart(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		w := newLoginWorld(t)
		w.logIn(func(o *declared.OAuth) { o.Shared = shared })
		_, err := w.logins.Ready(t.Context(), gatewaytest.Person(access.User("stranger"), access.RoleDeveloper), must.Get(w.Server("there"))(t))
		if shared != (err == nil) || !shared && reason.Of(err) != reason.UpstreamLogin {
			t.Errorf("shared %v: %v", shared, err)
		}
	}
}

// TestHostilePlaces: each variant of a dishonest server prevents the login. Control: the same
// server without the variant.
func TestHostilePlaces(t *testing.T) {
	t.Parallel()
	elsewhere := newPlace(t)
	for name, test := range map[string]struct {
		change func(*loginWorld)
		oauth  func(*declared.OAuth)
	}{
		"control": {},
		"no PKCE": {change: func(w *loginWorld) {
			w.place.metadata = func(m map[string]any) { delete(m, "code_challenge_methods_supported") }
		}},
		"plain PKCE": {change: func(w *loginWorld) {
			w.place.metadata = func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }
		}},
		"another issuer's name": {change: func(w *loginWorld) { w.place.metadata = func(m map[string]any) { m["issuer"] = elsewhere.as.URL } }},
		"tokens over http": {change: func(w *loginWorld) {
			w.place.metadata = func(m map[string]any) { m["token_endpoint"] = "http://127.0.0.1:1/token" }
		}},
		"a page that is a script": {change: func(w *loginWorld) {
			w.place.metadata = func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }
		}},
		"another resource": {change: func(w *loginWorld) { w.place.resource = func(m map[string]any) { m["resource"] = elsewhere.url() } }},
		"a deeper resource": {change: func(w *loginWorld) {
			w.place.resource = func(m map[string]any) { m["resource"] = w.place.url() + "/x" }
		}},
		"another authorization server": {change: func(w *loginWorld) {
			w.place.resource = func(m map[string]any) { m["authorization_servers"] = []string{elsewhere.as.URL} }
		}},
		"an undeclared one elsewhere": {oauth: func(o *declared.OAuth) { o.Issuer = "" }},
		"metadata on another host":    {change: func(w *loginWorld) { w.place.challenge = `Bearer resource_metadata="` + elsewhere.rs.URL + `/x"` }},
		"no registration":             {change: func(w *loginWorld) { w.place.noRegistration = true }},
		"no metadata documents": {
			change: func(w *loginWorld) {
				w.place.metadata = func(m map[string]any) { delete(m, "client_id_metadata_document_supported") }
			},
			oauth: func(o *declared.OAuth) { o.ClientID = "https://gateway.example/client.json" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			if test.change != nil {
				test.change(w)
			}
			var change []func(*declared.OAuth)
			if test.oauth != nil {
				change = append(change, test.oauth)
			}
			_, err := w.logins.Begin(t.Context(), w.person, w.server(change...), redirect)
			if (name == "control") != (err == nil) {
				t.Errorf("begun: %v", err)
			}
			if err != nil && reason.Of(err) != reason.LoginUnavailable {
				t.Errorf("refused with %s: %v", reason.Of(err), err)
			}
		})
	}
	if len(elsewhere.shown)+len(elsewhere.asked) > 0 {
		t.Error("the other place was asked")
	}
}

// TestIssuerSpellings: an issuer written with a slash after the host is accepted in every
// place. Control: TestHostilePlaces.
func TestIssuerSpellings(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *loginWorld, o *declared.OAuth){
		"metadata": func(w *loginWorld, _ *declared.OAuth) {
			w.place.metadata = func(m map[string]any) { m["issuer"] = w.place.as.URL + "/" }
		},
		"authorization_servers": func(w *loginWorld, _ *declared.OAuth) {
			w.place.resource = func(m map[string]any) { m["authorization_servers"] = []string{w.place.as.URL + "/"} }
		},
		"declared": func(w *loginWorld, o *declared.OAuth) { o.Issuer = w.place.as.URL + "/" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			w.logIn(func(o *declared.OAuth) { change(w, o) })
			r := must.Get(w.callAs(w.person, "there/hello", `{}`, tool.Peer{}))(t)
			if r.Outcome != tool.Succeeded {
				t.Errorf("the login is not used: %s %s", r.Reason, r.Message)
			}
		})
	}
}

// TestClients logs in with a client metadata document, and with a registered client, whose secret
// is in the header or in the body of each request.
func TestClients(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.place.noRegistration = true
	w.logIn(func(o *declared.OAuth) { o.ClientID = "https://gateway.example/client.json" })
	if got := w.place.asked[0].Get("client_id"); got != "https://gateway.example/client.json" || len(w.place.registered) > 0 {
		t.Errorf("the client is %q", got)
	}
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		w := newLoginWorld(t)
		w.place.metadata = func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{method} }
		must.Get(w.vault.Put(t.Context(), w.person, must.Get(vault.ParseRef("global/client"))(t), []byte("a secret+"), vault.Metadata{}))(t)
		w.logIn(func(o *declared.OAuth) { o.ClientID, o.ClientSecret = "client:1", "global/client" })
		w.at = w.at.Add(time.Hour)
		w.works("there/hello", `{}`)
		must.Do(t, w.logins.Logout(t.Context(), w.person, must.Get(w.Server("there"))(t)))
		var sent []string
		for _, q := range w.place.asked {
			sent = append(sent, q.Get("grant_type")+" "+q.Get("client_id")+" "+q.Get("client_secret")+" "+q.Get("resource"))
		}
		client, basic := "client:1 a secret+", []string(nil)
		if method == "client_secret_basic" {
			client, basic = " ", []string{"client%3A1 a+secret%2B", "client%3A1 a+secret%2B", "client%3A1 a+secret%2B"}
		}
		want := []string{"authorization_code " + client + " " + w.place.url(), "refresh_token " + client + " " + w.place.url()}
		if !slices.Equal(sent, want) || !slices.Equal(w.place.basic, basic) || len(w.place.revoked) != 1 || w.place.revoked[0] == "" {
			t.Errorf("%s: sent %q and %q, want %q and %q; revoked %q", method, sent, w.place.basic, want, basic, w.place.revoked)
		}
	}
}

// TestAnswers: an answer is accepted once, from the user who began the login, with the state
// and the issuer of the login.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(url.Values)
		as     access.Caller
		twice  bool
	}{
		"control":           {},
		"another state":     {change: func(q url.Values) { q.Set("state", "x") }},
		"no state":          {change: func(q url.Values) { q.Del("state") }},
		"another issuer":    {change: func(q url.Values) { q.Set("iss", "https://evil.example") }},
		"no issuer":         {change: func(q url.Values) { q.Del("iss") }},
		"another code":      {change: func(q url.Values) { q.Set("code", "code-x") }},
		"no code":           {change: func(q url.Values) { q.Del("code") }},
		"of another member": {as: gatewaytest.Person(policytest.Bob, access.RoleOwner)},
		"a second time":     {twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLoginWorld(t)
			must.Get(w.Add(t.Context(), operator, w.server()))(t)
			begun := must.Get(w.logins.Begin(t.Context(), w.person, w.server(), redirect))(t)
			q := w.browse(begun.AuthorizationURL)
			if test.change != nil {
				test.change(q)
			}
			if test.twice {
				must.Do(t, w.complete(begun.ID, q))
			}
			if !test.as.Principal.IsZero() {
				w.person = test.as
			}
			err := w.complete(begun.ID, q)
			if (name == "control") != (err == nil) || err != nil && reason.Of(err) != reason.LoginRefused {
				t.Errorf("completed: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "code-") {
				t.Errorf("the code is in the error: %v", err)
			}
		})
	}
}

// TestRedirects: the browser returns only to the user's own machine.
func TestRedirects(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	for _, to := range []string{"https://evil.example/callback", "http://localhost:1/callback", "http://127.0.0.1:1/other", "http://127.0.0.1@evil.example:1/callback", ""} {
		if _, err := w.logins.Begin(t.Context(), w.person, w.server(), to); reason.Of(err) != reason.InvalidInput {
			t.Errorf("%q: %v", to, err)
		}
	}
}

// TestLoginOfAChangedServer: a login is used only for its own server.
func TestLoginOfAChangedServer(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.logIn()
	evil := newPlace(t)
	s := w.server()
	s.URL = evil.url()
	_, err := w.logins.Use(t.Context(), gatewaytest.Agent, s, "call", 0)
	if reason.Of(err) != reason.UpstreamLogin {
		t.Errorf("another URL: %v", err)
	}
	login := must.Get(w.logins.Use(t.Context(), gatewaytest.Agent, w.server(), "call", 0))(t) // the control
	must.Do(t, login.End(t.Context()))
}

// TestKeptByTheGateway: only the gateway reads or writes a login, regardless of policy.
func TestKeptByTheGateway(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.logIn()
	ref := must.Get(vault.LoginRef("there", w.person.Principal))(t)
	if _, _, err := w.vault.Reveal(t.Context(), w.person, ref, 0); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("revealed: %v", err)
	}
	if _, err := w.vault.Put(t.Context(), w.person, ref, []byte("x"), vault.Metadata{}); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("put: %v", err)
	}
	other := vault.Ref{Scope: ref.Scope, Key: "mine"} // the control
	must.Get(w.vault.Put(t.Context(), w.person, other, []byte("value-123"), vault.Metadata{}))(t)
	if value, _, err := w.vault.Reveal(t.Context(), w.person, other, 0); err != nil || string(value) != "value-123" {
		t.Errorf("the control: %s, %v", value, err)
	}
}
