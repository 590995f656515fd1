package login_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/identitytest"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/logintest"
)

const redirect = "http://127.0.0.1:4711/callback"

// world is a gateway at which the people of a provider log in, with its own clock.
type world struct {
	t        *testing.T
	provider *logintest.Provider
	identity *identity.Service
	registry *access.Registry
	store    *identitytest.Store
	*login.Service

	mu      sync.Mutex
	ahead   time.Duration
	log     bytes.Buffer
	refused []string
	errors  []string
}

var ann = logintest.Person{Subject: "s-ann", Name: "ann", Groups: []string{"staff", "approvers"}}

// newWorld creates the world; options may change the settings.
func newWorld(t *testing.T, options ...func(*login.Config)) *world {
	t.Helper()
	w := &world{t: t, provider: logintest.Start(t, "/realms/main"), store: identitytest.NewStore(t)}
	w.provider.Clock(w.now)
	w.provider.SignIn(ann)
	authority, _, err := ca.Open(t.TempDir()+"/ca", ca.Options{Now: w.now})
	must.Do(t, err)
	w.registry = must.Get(access.NewRegistry(t.Context(), w.store, nil))(t)
	w.identity = must.Get(identity.New(t.Context(), identity.Config{Guard: change.Unguarded, Authority: authority, Store: w.store, Registry: w.registry, Now: w.now}))(t)
	cfg := login.Config{
		Issuer: w.provider.Issuer(), ClientID: logintest.ClientID, Secret: func() (string, error) { return logintest.Secret, nil },
		Scopes: []string{"openid", "profile"}, UsernameClaim: "preferred_username", GroupsClaim: "groups", Algorithms: []string{"RS256", "ES256"},
		Groups: []login.Mapping{
			{Group: "approvers", Roles: []access.Role{access.RoleOperator}}, {Group: "auditors", Roles: []access.Role{access.RoleAuditor}},
			{Group: "makers", Roles: []access.Role{access.RoleDeveloper, access.RoleAuditor}},
		},
		DeviceFlow: true, Session: 12 * time.Hour, Members: w.identity.Logins, Now: w.now,
		Refused: func(_ context.Context, source string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, source)
		},
		Log: slog.New(slog.NewJSONHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, fn := range options {
		fn(&cfg)
	}
	w.Service = must.Get(login.New(cfg))(t)
	t.Cleanup(w.keepsSecrets)
	return w
}

// keepsSecrets checks that no log, event or error contains a code or a token.
func (w *world) keepsSecrets() {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.log.String() + strings.Join(w.errors, "\n") + strings.Join(w.refused, "\n")
	for _, d := range w.store.Events() {
		all += string(d.Payload)
	}
	for _, secret := range append(w.provider.Said(), logintest.Secret) {
		if len(secret) > 4 && strings.Contains(all, secret) {
			w.t.Errorf("the secret %q occurs in a log, an event or an error", secret)
		}
	}
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

// session is the machine of a person who logs in.
type session struct {
	w     *world
	key   crypto.Signer
	begun login.Begun
	from  string
}

// begin starts a login from an address; redirect "" selects the device flow.
func (w *world) begin(redirect string) *session {
	w.t.Helper()
	s := must.Get(w.tryBegin(redirect, "192.0.2.1"))(w.t)
	return s
}

func (w *world) tryBegin(redirect, from string) (*session, error) {
	w.t.Helper()
	s := &session{w: w, key: must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(w.t), from: from}
	var err error
	s.begun, err = w.Begin(w.t.Context(), login.Request{CSR: csr(w.t, s.key), Redirect: redirect, Address: from})
	return s, w.recordError(err)
}

func csr(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	block, _ := pem.Decode(must.Get(identity.Request(key))(t))
	return block.Bytes
}

// recordError records an error for the search for secrets.
func (w *world) recordError(err error) error {
	if err != nil {
		known := reason.Known(err, reason.Internal)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errors = append(w.errors, err.Error(), known.Message, known.NextStep(), fmt.Sprint(known.Fields))
	}
	return err
}

// browse opens the authorization URL in the person's browser and returns the provider's answer.
func (s *session) browse() login.Answer {
	s.w.t.Helper()
	return s.answer(s.w.browse(s.begun.AuthorizationURL))
}

func (w *world) browse(page string) url.Values {
	w.t.Helper()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true},
	}
	res := must.Get(client.Get(page))(w.t)
	must.Do(w.t, res.Body.Close())
	back, err := res.Location()
	if err != nil {
		w.t.Fatalf("the provider answers %s", res.Status)
	}
	return back.Query()
}

func (s *session) answer(back url.Values) login.Answer {
	s.w.t.Helper()
	return login.Answer{
		ID: s.begun.ID, State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"), Address: s.from,
		Proof: must.Get(identity.Prove(s.key, identity.LoginProof(s.begun.ID, back.Get("code"))))(s.w.t),
	}
}

func (s *session) complete(a login.Answer) (identity.LoggedIn, error) {
	in, err := s.w.Complete(s.w.t.Context(), a)
	return in, s.w.recordError(err)
}

func (s *session) poll() (identity.LoggedIn, time.Duration, error) {
	in, wait, err := s.w.Poll(s.w.t.Context(), login.Question{
		ID: s.begun.ID, Address: s.from, Proof: must.Get(identity.Prove(s.key, identity.LoginProof(s.begun.ID, "")))(s.w.t),
	})
	return in, wait, s.w.recordError(err)
}

// login logs a person in with a browser.
func (w *world) login(p logintest.Person) (identity.LoggedIn, error) {
	w.t.Helper()
	w.provider.SignIn(p)
	s := w.begin(redirect)
	return s.complete(s.browse())
}

// checkLogin is the control: a valid login succeeds.
func (w *world) checkLogin() {
	w.t.Helper()
	w.provider.Forge(nil)
	if _, err := w.login(ann); err != nil {
		w.t.Errorf("control: %v", err)
	}
}

func wantRefused(t *testing.T, what string, err error, text string) {
	t.Helper()
	if reason.Of(err) != reason.LoginRefused || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want LOGIN_REFUSED with %q", what, err, text)
	}
}
