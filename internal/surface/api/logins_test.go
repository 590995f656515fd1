package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"net/http"
	"net/url"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/login"
	"palyra/internal/identity/login/logintest"
	"palyra/internal/surface/api"
)

// withLoginProvider configures a provider for logins.
func withLoginProvider(p *logintest.Provider) func(*world) {
	return func(w *world) {
		w.people = login.Config{
			Issuer: p.Issuer(), ClientID: logintest.ClientID, Secret: func() (string, error) { return logintest.Secret, nil }, Scopes: []string{"openid"},
			UsernameClaim: "preferred_username", GroupsClaim: "groups", Algorithms: []string{"ES256"}, DeviceFlow: true, Session: time.Hour,
			Groups: []login.Mapping{{Group: "approvers", Roles: []access.Role{access.RoleOperator}}},
		}
	}
}

func (c *client) logins() palyrav1connect.LoginServiceClient {
	return palyrav1connect.NewLoginServiceClient(c.http, c.w.url)
}

// TestLogIn: a user without a credential logs in, makes requests, logs out, and is then
// refused.
func TestLogIn(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "")
	provider.SignIn(logintest.Person{Subject: "s-fay", Name: "fay", Groups: []string{"approvers"}})
	w := newWorld(t, withLoginProvider(provider))
	stranger := w.connect("", nil).logins()
	about := must.Get(stranger.DescribeLogin(t.Context(), &palyrav1.DescribeLoginRequest{}))(t)
	if about.GetIssuer() != provider.Issuer() || about.GetCaCertificate() != string(w.authority.RootPEM()) || !about.GetDeviceFlow() {
		t.Errorf("about: %v", about)
	}
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	block, _ := pem.Decode(must.Get(identity.Request(key))(t))
	begun := must.Get(stranger.BeginLogin(t.Context(), &palyrav1.BeginLoginRequest{CertificateRequest: block.Bytes, RedirectUri: "http://127.0.0.1:4711/callback"}))(t)
	back := redirected(t, begun.GetAuthorizationUrl())
	answer := &palyrav1.CompleteLoginRequest{
		LoginId: begun.GetLoginId(), State: back.Get("state"), Code: back.Get("code"), Issuer: back.Get("iss"),
		Proof: must.Get(identity.Prove(key, identity.LoginProof(begun.GetLoginId(), back.Get("code"))))(t),
	}
	done := must.Get(stranger.CompleteLogin(t.Context(), answer))(t)
	if done.GetSession().GetPrincipal() != "user:fay" {
		t.Errorf("logged in %v", done)
	}
	_, err := stranger.CompleteLogin(t.Context(), answer)
	wantError(t, "the same answer again", err, reason.LoginRefused)
	if got := w.audit.count(); got == 0 {
		t.Error("the refusal was not noted")
	}

	fay := w.connect(done.GetSession().GetDeviceId(), certificate(must.Get(ca.ParseChain([]byte(done.GetSession().GetCertificateChain())))(t), key))
	if code := fay.sendUnary(t, "StatusService/GetStatus", "{}"); code != "" {
		t.Errorf("fay: %s", code)
	}
	members := must.Get(palyrav1connect.NewAccessServiceClient(w.alice.http, w.url).ListMembers(t.Context(), &palyrav1.ListMembersRequest{}))(t)
	for _, m := range members.GetMembers() {
		if logsIn := m.GetLoginSubject() == "s-fay" && m.GetLoginIssuer() == provider.Issuer(); logsIn != (m.GetPrincipal() == "user:fay") {
			t.Errorf("%v", m)
		}
	}
	_, err = w.alice.logins().EndLogin(t.Context(), &palyrav1.EndLoginRequest{})
	wantError(t, "alice logs out", err, reason.NotFound)
	must.Get(fay.logins().EndLogin(t.Context(), &palyrav1.EndLoginRequest{}))(t)
	if code := fay.sendUnary(t, "StatusService/GetStatus", "{}"); code != reason.Unauthenticated {
		t.Errorf("fay, logged out: %q", code)
	}
}

func redirected(t *testing.T, page string) url.Values {
	t.Helper()
	browser := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true},
	}
	res := must.Get(browser.Get(page))(t)
	must.Do(t, res.Body.Close())
	return must.Get(res.Location())(t).Query()
}

// The rate of logins is limited by client address.
func TestLoginIsRateLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		l := w.limits[api.LimitLogin]
		l.Each.Burst, l.Each.PerSecond = 3, 0.001
		w.limits[api.LimitLogin] = l
	})
	var last reason.Code
	for range 4 {
		last = w.connect("", nil).sendUnary(t, "LoginService/BeginLogin", `{"certificate_request":"MIH","redirect_uri":"http://127.0.0.1:1/callback"}`)
	}
	if last != reason.RateLimited {
		t.Errorf("the fourth login of an address: %q", last)
	}
}
