package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/identity"
)

// deviceGrant is the grant type of RFC 8628, section 3.4.
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// The polling interval for the person's confirmation. usual is the default if the provider does
// not set an interval, and each slow_down answer adds slower (RFC 8628, section 3.5). The
// interval is never shorter than fastest or longer than slowest.
const (
	usual   = 5 * time.Second
	slower  = 5 * time.Second
	fastest = time.Second
	slowest = time.Minute
)

// authorized is an answer of the device authorization endpoint (RFC 8628, section 3.2).
type authorized struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"` // seconds
	Interval                int64  `json:"interval"`   // seconds
}

// beginDevice requests a code from the provider, which the person confirms on another device.
func (s *Service) beginDevice(ctx context.Context, p *provider, w *waiting) (Begun, error) {
	if p.endpoint.DeviceAuthURL == "" {
		return Begun{}, reason.Errorf(reason.LoginRefused, "the identity provider has no device flow").
			WithRemedy("Log in with a browser on this machine: `palyra login` without --device.")
	}
	a, err := s.authorizeDevice(ctx, p)
	if err != nil {
		return Begun{}, err
	}
	now := s.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deviceCode, w.interval = a.DeviceCode, usual
	if a.Interval > 0 {
		w.interval = min(max(time.Duration(min(a.Interval, 60))*time.Second, fastest), slowest)
	}
	w.next, w.expires = now.Add(w.interval), w.ends
	if a.ExpiresIn > 0 && a.ExpiresIn < int64(life/time.Second) {
		w.expires = now.Add(time.Duration(a.ExpiresIn) * time.Second)
	}
	return Begun{
		ID: w.id, ExpiresAt: w.expires, UserCode: a.UserCode, VerificationURI: a.VerificationURI,
		VerificationURIComplete: a.VerificationURIComplete, Interval: w.interval,
	}, nil
}

// authorizeDevice is oauth2.Config.DeviceAuth with the client's secret and a time limit.
// oauth2.Config.DeviceAuth sends no client secret. Its DeviceAccessToken waits in a loop,
// whereas one query per PollLogin needs no goroutine.
func (s *Service) authorizeDevice(ctx context.Context, p *provider) (a authorized, err error) {
	secret, err := s.secret()
	if err != nil {
		return a, err
	}
	form := url.Values{"client_id": {s.ClientID}, "scope": {strings.Join(s.Scopes, " ")}}
	if secret != "" && p.endpoint.AuthStyle == oauth2.AuthStyleInParams {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint.DeviceAuthURL, strings.NewReader(form.Encode()))
	if err != nil {
		return a, unavailable(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" && p.endpoint.AuthStyle == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(s.ClientID), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
	}
	res, err := s.client.Do(req)
	if err != nil {
		return a, unavailable(err)
	}
	content, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return a, unavailable(err)
	}
	if res.StatusCode != http.StatusOK {
		return a, unavailable(fmt.Errorf("its device authorization endpoint answers %s", res.Status))
	}
	if canonical.Read(content, &a) != nil || a.DeviceCode == "" || a.UserCode == "" || !webURL(a.VerificationURI) || a.VerificationURIComplete != "" && !webURL(a.VerificationURIComplete) {
		return a, unavailable(errors.New("its device authorization endpoint returns a response that RFC 8628 does not allow"))
	}
	a.UserCode = text.Clip(a.UserCode, maxName)
	return a, nil
}

// webURL reports whether text is a URL that a person's browser can open.
func webURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && len(text) <= 2<<10
}

// Question is a query about a login that is confirmed on another device.
type Question struct {
	ID string
	// Proof is identity.Prove of identity.LoginProof without a code.
	Proof   []byte
	Address string
}

// Poll asks the provider whether the person has confirmed, unless the interval since the last
// query has not passed yet. While the provider has no answer, wait is the recommended time
// until the next call.
func (s *Service) Poll(ctx context.Context, q Question) (in identity.LoggedIn, wait time.Duration, err error) {
	if err := s.ready(q.Address); err != nil {
		return in, 0, err
	}
	w := s.open.find(q.ID)
	if w == nil || w.redirect != "" || !identity.Proven(w.key, identity.LoginProof(q.ID, ""), q.Proof) {
		return in, 0, s.refuse(ctx, q.Address, q.Address, noLogin())
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p, err := s.discovery.get(ctx)
	if err != nil {
		return in, 0, err
	}
	token, wait, err := s.ask(ctx, p, w)
	switch {
	case err != nil:
		return in, 0, s.noted(ctx, q.Address, q.Address, err)
	case wait > 0:
		return in, wait, nil
	case !s.open.take(w):
		return in, 0, noLogin()
	}
	in, err = s.admit(ctx, p, w, q.Address, token)
	return in, 0, err
}

// ask sends one query. Only one query is active at a time; other callers wait their interval.
func (s *Service) ask(ctx context.Context, p *provider, w *waiting) (*oauth2.Token, time.Duration, error) {
	if !w.mu.TryLock() {
		return nil, usual, nil
	}
	defer w.mu.Unlock()
	now := s.Now()
	if w.deviceCode == "" || !now.Before(w.expires) {
		s.open.drop(w)
		return nil, 0, (&declinedError{code: "expired_token"}).reason()
	}
	if wait := w.next.Sub(now); wait > 0 {
		return nil, wait, nil
	}
	w.next = now.Add(w.interval)
	// The code of the other flow is sent empty, which is equivalent to omitting it (RFC 6749,
	// section 3.2).
	token, err := s.token(ctx, p, "", "", oauth2.SetAuthURLParam("grant_type", deviceGrant), oauth2.SetAuthURLParam("device_code", w.deviceCode))
	var declined *declinedError
	if !errors.As(err, &declined) {
		return token, 0, err
	}
	switch declined.code {
	case "slow_down":
		w.interval = min(w.interval+slower, slowest)
		w.next = now.Add(w.interval)
		return nil, w.interval, nil
	case "authorization_pending":
		return nil, w.interval, nil
	}
	s.open.drop(w)
	return nil, 0, declined.reason()
}
