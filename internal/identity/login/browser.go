package login

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// maxText limits the provider's text that a message repeats, and maxName a repeated name, in
// bytes.
const (
	maxText = 300
	maxName = 100
)

// callbackPath is the path of the provider's redirect on the person's machine.
const callbackPath = "/callback"

// CheckRedirect requires the loopback address of the person's own machine, with the port on which
// the command listens (RFC 8252, section 7.3). A browser could resolve "localhost" to another host.
func CheckRedirect(redirect string) error {
	u, err := url.Parse(redirect)
	if err == nil {
		port, bad := strconv.ParseUint(u.Port(), 10, 16)
		if want := "http://127.0.0.1:" + strconv.FormatUint(port, 10) + callbackPath; bad == nil && port > 0 && redirect == want {
			return nil
		}
	}
	return reason.Errorf(reason.InvalidInput, "redirect_uri is not http://127.0.0.1:PORT%s: a login ends on the machine that began it", callbackPath)
}

// oauth returns the configuration of the client for golang.org/x/oauth2.
func (s *Service) oauth(p *provider, redirect, secret string) *oauth2.Config {
	return &oauth2.Config{ClientID: s.ClientID, ClientSecret: secret, Endpoint: p.endpoint, RedirectURL: redirect, Scopes: s.Scopes}
}

// authorization returns the parameters that bind the provider's answer to the login.
func (s *Service) authorization(w *waiting) []oauth2.AuthCodeOption {
	options := []oauth2.AuthCodeOption{oidc.Nonce(w.nonce), oauth2.S256ChallengeOption(w.verifier)}
	if s.MaxAge > 0 {
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(s.MaxAge/time.Second))))
	}
	return options
}

// exchange exchanges the authorization code for the provider's tokens.
func (s *Service) exchange(ctx context.Context, p *provider, w *waiting, code string) (*oauth2.Token, error) {
	return s.token(ctx, p, w.redirect, code, oauth2.VerifierOption(w.verifier))
}

// token sends one request to the token endpoint. Its errors contain the provider's error code, but
// nothing from the request.
func (s *Service) token(ctx context.Context, p *provider, redirect, code string, options ...oauth2.AuthCodeOption) (*oauth2.Token, error) {
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, s.client)
	token, err := s.oauth(p, redirect, secret).Exchange(ctx, code, options...)
	if err == nil {
		return token, nil
	}
	var answer *oauth2.RetrieveError
	switch {
	case away(err):
		return nil, unavailable(errors.New("its token endpoint does not answer"))
	case errors.As(err, &answer) && answer.ErrorCode == "invalid_client":
		return nil, reason.Errorf(reason.LoginUnavailable, "the identity provider does not accept the gateway as its client %s", s.ClientID).
			WithRemedy("Ask an administrator to compare oidc.client_id and oidc.client_secret_file with the provider's.")
	case errors.As(err, &answer):
		return nil, &declinedError{code: answer.ErrorCode}
	}
	return nil, reason.Errorf(reason.LoginRefused, "the identity provider's answer has no tokens")
}

func (s *Service) secret() (string, error) {
	if s.Secret == nil {
		return "", nil
	}
	secret, err := s.Secret()
	if err != nil {
		return "", reason.Errorf(reason.LoginUnavailable, "the gateway cannot authenticate to the identity provider: %w", err).
			WithRemedy("Ask an administrator to check oidc.client_secret_file with `palyra config check`.")
	}
	return secret, nil
}

// declinedError is an error code of the token endpoint (RFC 6749, section 5.2, and RFC
// 8628, section 3.5).
type declinedError struct{ code string }

func (e *declinedError) Error() string { return e.reason().Message }

// As converts it to a reason.Error for callers that do not inspect the code.
func (e *declinedError) As(target any) bool {
	known, ok := target.(**reason.Error)
	if ok {
		*known = e.reason()
	}
	return ok
}

func (e *declinedError) reason() *reason.Error {
	switch e.code {
	case "access_denied":
		return reason.Errorf(reason.LoginRefused, "the login was denied at the identity provider")
	case "expired_token":
		return reason.Errorf(reason.LoginRefused, "the login was not confirmed in time")
	}
	return reason.Errorf(reason.LoginRefused, "the identity provider refused the login: %q", text.Ellipsis(e.code, maxName))
}
