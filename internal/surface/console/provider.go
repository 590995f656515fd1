package console

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/login"
)

// The routes of logins at the identity provider.
const (
	AboutRoute    = "GET /console/v1/about"
	ProviderRoute = "GET /console/v1/login/oidc"
	CallbackRoute = "GET /console/v1/callback"

	callbackPath = "/console/v1/callback"
	// browserCookie binds the callback from the provider to the browser that was sent there.
	browserCookie = "palyra-oidc"
	// mostAway bounds the browsers that are at the provider.
	mostAway = 1024
)

// Provider authenticates users at the identity provider. login.Service implements it.
type Provider interface {
	Begin(ctx context.Context, r login.Request) (login.Begun, error)
	Complete(ctx context.Context, a login.Answer) (identity.LoggedIn, error)
}

// away is a browser at the identity provider. The key is for this login alone: a signature with
// it proves that the callback belongs to the login.
type away struct {
	login string
	key   crypto.Signer
	ends  time.Time
}

// about returns whether users can log in at an identity provider. It needs no session.
func (c *Console) about(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"oidc": c.Provider != nil})
}

// toProvider redirects a browser to the identity provider.
func (c *Console) toProvider(w http.ResponseWriter, r *http.Request) {
	page, cookie, err := c.leaveFor(r)
	if err != nil {
		c.back(w, r, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, page, http.StatusFound)
}

func (c *Console) leaveFor(r *http.Request) (page string, cookie *http.Cookie, err error) {
	if c.Provider == nil {
		return "", nil, reason.Errorf(reason.LoginUnavailable, "this gateway has no identity provider").WithRemedy("Run `palyra console` on your device.")
	}
	if ok, wait := c.Allow(address(r)); !ok {
		return "", nil, reason.Errorf(reason.RateLimited, "too many logins; try again in %s", wait.Round(time.Millisecond))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("making a key: %w", err)
	}
	request, err := identity.Request(key)
	if err != nil {
		return "", nil, err
	}
	block, _ := pem.Decode(request)
	begun, err := c.Provider.Begin(r.Context(), login.Request{CSR: block.Bytes, Redirect: c.Origin + callbackPath, ToConsole: true, Address: address(r)})
	if err != nil {
		return "", nil, err
	}
	text, id := fresh()
	if err := c.keepAway(id, &away{login: begun.ID, key: key, ends: begun.ExpiresAt}); err != nil {
		return "", nil, err
	}
	// Lax, because the browser returns from another site.
	return begun.AuthorizationURL, &http.Cookie{
		Name: browserCookie, Value: text, Path: callbackPath, HttpOnly: true, Secure: strings.HasPrefix(c.Origin, "https:"), SameSite: http.SameSiteLaxMode,
		MaxAge: int(time.Until(begun.ExpiresAt)/time.Second) + 1,
	}, nil
}

func (c *Console) keepAway(id digest, a *away) error {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for d, old := range c.gone {
		if !now.Before(old.ends) {
			delete(c.gone, d)
		}
	}
	if len(c.gone) >= mostAway {
		return reason.Errorf(reason.RateLimited, "too many logins are pending").WithField("retry_after", "1m")
	}
	c.gone[id] = a
	return nil
}

// callback completes a login at the provider, and redirects the browser to a link.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) {
	link, err := c.comeBack(r)
	if err != nil {
		c.back(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: browserCookie, Path: callbackPath, MaxAge: -1, HttpOnly: true})
	http.Redirect(w, r, link.URL, http.StatusFound)
}

func (c *Console) comeBack(r *http.Request) (Link, error) {
	shown, err := r.Cookie(browserCookie)
	if err != nil {
		return Link{}, notBegun()
	}
	id := digestOf(shown.Value)
	c.mu.Lock()
	a := c.gone[id]
	delete(c.gone, id)
	c.mu.Unlock()
	q := r.URL.Query()
	switch {
	case a == nil || !c.Now().Before(a.ends):
		return Link{}, notBegun()
	case q.Get("error") != "":
		return Link{}, reason.Errorf(reason.LoginRefused, "the login was refused at the identity provider")
	}
	proof, err := identity.Prove(a.key, identity.LoginProof(a.login, q.Get("code")))
	if err != nil {
		return Link{}, err
	}
	in, err := c.Provider.Complete(r.Context(), login.Answer{
		ID: a.login, State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Proof: proof, Address: address(r),
	})
	if err != nil {
		return Link{}, err
	}
	// Not paired: the key of the login is discarded with this request.
	return c.links.create(r.Context(), Way{Principal: in.Member.Principal, Device: in.Device.ID, Provider: true, Until: in.Device.LoginUntil})
}

func notBegun() error {
	return reason.Errorf(reason.LoginRefused, "this browser has no pending login, or it has expired").WithRemedy("Start again on the login page of the console.")
}

// back redirects to the login page with an error.
func (c *Console) back(w http.ResponseWriter, r *http.Request, err error) {
	code := reason.Of(err)
	c.Refused(r.Context(), address(r), r.URL.Path, code)
	shown := reason.Known(err, reason.Internal)
	if code == reason.Internal {
		shown = reason.Errorf(reason.Internal, "internal error; the gateway's log has the cause")
	}
	query := url.Values{"error": {string(shown.Code)}, "message": {shown.Message}, "remedy": {shown.NextStep()}}
	http.Redirect(w, r, c.Origin+"/login#"+query.Encode(), http.StatusFound)
}
