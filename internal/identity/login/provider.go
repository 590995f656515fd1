package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// fresh is how long the provider's metadata and keys are cached: a withdrawn key verifies
	// nothing after that. Added keys are found immediately.
	fresh = 5 * time.Minute
	// failedFor is how long an unreachable provider is not queried again, so that strangers cannot
	// trigger queries at will.
	failedFor = 5 * time.Second
	// answerTimeout limits the time of one answer of the provider, and maxAnswer its bytes.
	answerTimeout = 10 * time.Second
	maxAnswer     = 1 << 20
)

// provider is the provider's metadata.
type provider struct {
	endpoint oauth2.Endpoint
	keys     *oidc.RemoteKeySet
	at       time.Time
}

// discovery reads the provider's metadata and caches it, or the error of reading it.
type discovery struct {
	issuer string
	client *http.Client
	// hasSecret is true if the gateway authenticates to the provider.
	hasSecret bool
	log       *slog.Logger
	now       func() time.Time

	// turn guards the fields below.
	turn     chan struct{}
	provider *provider
	err      error
	failedAt time.Time
}

// get returns the provider's metadata. It reads the metadata again if the cached copy is too old.
func (d *discovery) get(ctx context.Context) (*provider, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
	now := d.now()
	switch {
	case d.provider != nil && now.Sub(d.provider.at) < fresh:
		return d.provider, nil
	case d.err != nil && now.Sub(d.failedAt) < failedFor:
		return nil, d.err
	}
	d.provider, d.err = d.read(ctx, now)
	if d.err != nil {
		d.failedAt = now
		d.log.WarnContext(ctx, "the identity provider cannot be reached", slog.String("error", d.err.Error()))
	}
	return d.provider, d.err
}

func (d *discovery) read(ctx context.Context, now time.Time) (*provider, error) {
	asked, err := oidc.NewProvider(oidc.ClientContext(ctx, d.client), d.issuer)
	if err != nil {
		var other *oidc.IssuerMismatchError
		if errors.As(err, &other) {
			return nil, reason.Errorf(reason.LoginUnavailable, "the identity provider reports the issuer %s, but oidc.issuer is %s",
				text.Ellipsis(other.Discovered, maxName), d.issuer).WithRemedy("Ask an administrator to correct oidc.issuer in palyra.toml and restart palyrad.")
		}
		return nil, unavailable(err)
	}
	var said struct {
		JWKS string   `json:"jwks_uri"`
		Auth []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := asked.Claims(&said); err != nil {
		return nil, unavailable(err)
	}
	p := &provider{endpoint: asked.Endpoint(), at: now}
	for name, endpoint := range map[string]string{
		"authorization_endpoint": p.endpoint.AuthURL, "token_endpoint": p.endpoint.TokenURL, "jwks_uri": said.JWKS,
		"device_authorization_endpoint": p.endpoint.DeviceAuthURL,
	} {
		if err := d.checkEndpoint(name, endpoint); err != nil {
			return nil, err
		}
	}
	p.endpoint.AuthStyle = d.authStyle(said.Auth)
	p.keys = oidc.NewRemoteKeySet(oidc.ClientContext(ctx, d.client), said.JWKS)
	return p, nil
}

// authStyle returns the way in which the client sends its secret (OpenID Connect Discovery 1.0,
// section 3: client_secret_basic unless the provider states otherwise). Trying both would use
// up the code.
func (d *discovery) authStyle(supported []string) oauth2.AuthStyle {
	if !d.hasSecret || len(supported) > 0 && !slices.Contains(supported, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// checkEndpoint requires TLS, unless the endpoint and the issuer are on this machine.
func (d *discovery) checkEndpoint(name, endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case name == "device_authorization_endpoint" && endpoint == "":
		return nil
	case err == nil && u.Scheme == "https" && u.Host != "":
		return nil
	case err == nil && u.Scheme == "http" && dnsname.Loopback(u.Hostname()) && len(d.issuer) > 5 && d.issuer[:5] == "http:":
		return nil
	}
	return reason.Errorf(reason.LoginUnavailable, "the identity provider's %s is %q, which is not an https URL", name, text.Ellipsis(endpoint, maxName)).
		WithRemedy("Ask an administrator to check the provider's configuration.")
}

// unavailable returns the error for a provider that cannot be queried.
func unavailable(err error) error {
	return reason.Errorf(reason.LoginUnavailable, "the identity provider cannot be reached: %s", text.Ellipsis(err.Error(), maxText)).
		WithRemedy("Try again later, or ask an administrator to check that the gateway can reach oidc.issuer. Other credentials still work.")
}

// away reports whether an error means that the provider cannot be reached.
func away(err error) bool {
	var wire *url.Error
	var answer *oauth2.RetrieveError
	return errors.As(err, &wire) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode >= http.StatusInternalServerError
}

// NewClient returns an HTTP client for requests to a provider only: no proxy, no redirects, and
// limited answers. A GET with a status other than 200 is an error. If roots is nil, the
// system's roots are used.
func NewClient(dial func(ctx context.Context, network, address string) (net.Conn, error), roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{&http.Transport{
			Proxy:                  nil, // regardless of the daemon's environment
			DialContext:            dial,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    answerTimeout,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}},
	}
}

// bounded limits the bytes that are read of an answer.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	if r.Method == http.MethodGet && res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("it answers %s", res.Status), res.Body.Close())
	}
	return res, nil
}
