package builtin

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// maxRedirects is the maximum number of redirects of one call.
const maxRedirects = 5

// responseHeaders are the response headers in a result. Cookies are excluded.
var responseHeaders = []string{
	"Cache-Control", "Content-Language", "Content-Length", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After",
	"Server", "Vary", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
}

type fetchResult struct {
	Status int `json:"status"`
	// URL is the URL of the final response.
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	body
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256"`
	Truncated bool   `json:"truncated"`
	// Redirects are the URLs that were followed.
	Redirects []string `json:"redirects"`
	// NotFollowed is the target of a redirect that was not followed, because its host is neither
	// the decided one nor in http.allowed_hosts.
	NotFollowed string `json:"not_followed,omitempty"`
}

func (t fetch) run(ctx context.Context, c tool.Call, r request) tool.Report {
	report := begin(t.version)
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, reason.Errorf(reason.TimedOut, "no complete response within %d ms", r.timeout.Milliseconds()))
	defer cancel()
	log := egress.NewConnectionLog(time.Now())
	dialer := &egress.Dialer{
		Rules: t.rules(), OpenByDefault: true, Log: log, Resolver: t.policy.Resolver, Interfaces: t.policy.Interfaces, Dial: t.dial,
	}
	lent, end := t.lent(c, r)
	defer end()
	secrets := secret.New("", lent)
	defer secrets.Close()
	result, err := t.do(ctx, r, dialer, secrets)
	if err == nil {
		// A server may end a body because the deadline cancelled the request; the part received
		// until then is not a complete response.
		err = ctx.Err()
	}
	report.Egress.Allowed = slices.Clone(c.Plan.Binding.Egress)
	report.Egress.Observed, report.Egress.Missed = log.List()
	if err != nil {
		return report.Fail(ctx, err)
	}
	return report.Succeed(result)
}

func (t fetch) do(ctx context.Context, r request, dialer *egress.Dialer, secrets *secret.Exchange) (fetchResult, error) {
	// The context limits the time. A second limit here would race with it and would not report
	// TIMED_OUT.
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: t.policy.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: 64 << 10,
		TLSHandshakeTimeout:    10 * time.Second,
	}
	defer transport.CloseIdleConnections()
	hops := &redirects{fetch: t, request: r}
	client := &http.Client{Transport: secret.Transport{Next: transport, Secrets: secrets}, CheckRedirect: hops.check}
	request, err := r.http(ctx)
	if err != nil {
		return fetchResult{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return fetchResult{}, fetchError(err)
	}
	defer response.Body.Close()
	result, err := read(response, r.bytes)
	result.Redirects, result.NotFollowed = canonical.List(hops.followed), hops.stopped
	return result, err
}

func (r request) http(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input at /url is not a URL").WithField("pointer", "/url")
	}
	for name, value := range r.headers {
		request.Header.Set(name, value)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "palyra")
	}
	return request, nil
}

// read reads a response, with up to most bytes of its body.
func read(response *http.Response, most int64) (fetchResult, error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return fetchResult{}, fetchError(err)
	}
	truncated := int64(len(data)) > most
	if truncated {
		data = data[:most]
	}
	result := fetchResult{
		Status: response.StatusCode, URL: response.Request.URL.String(), Headers: map[string]string{},
		body: asOutput(data, truncated), Bytes: len(data), SHA256: canonical.Digest(data), Truncated: truncated,
		Redirects: []string{},
	}
	for _, name := range responseHeaders {
		if value := response.Header.Get(name); value != "" {
			result.Headers[strings.ToLower(name)] = strings.ToValidUTF8(text.Ellipsis(value, 2048), "\ufffd")
		}
	}
	return result, nil
}

// fetchError maps an error of the client to a reason. The client wraps the errors of the dialer
// and of the redirect check.
func fetchError(err error) error {
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	var unknownCA *tls.CertificateVerificationError
	if errors.As(err, &unknownCA) {
		return reason.Errorf(reason.FetchFailed, "the server's certificate is not valid: %w", unknownCA.Err)
	}
	return reason.Errorf(reason.FetchFailed, "fetching: %w", err)
}

// redirects checks every hop of one call.
type redirects struct {
	fetch   fetch
	request request
	// followed is never nil; stopped is "" unless a redirect was not followed.
	followed []string
	stopped  string
}

func (h *redirects) check(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return reason.Errorf(reason.FetchFailed, "more than %d redirects", maxRedirects)
	}
	previous := via[len(via)-1]
	if previous.URL.Scheme == "https" && next.URL.Scheme == "http" {
		return reason.Errorf(reason.EgressDenied, "a redirect goes from https to plain http")
	}
	host, port, err := judgeURL(next.URL)
	if err != nil {
		return err
	}
	if err := h.fetch.judgeTarget(host, port); err != nil && !h.unlisted(host, port) {
		return err
	}
	// The approval was for the first host. Another host is followed only if the operator's rules
	// name it; the binding includes those rules.
	answer, _ := h.fetch.rules().Match(host, port)
	if !h.covered(host, port) && answer != egress.Allowed {
		h.stopped = next.URL.String()
		return http.ErrUseLastResponse
	}
	next.Host = ""
	next.Header.Del("Referer")
	if !h.covered(host, port) {
		for _, name := range h.request.credentials {
			next.Header.Del(name)
		}
	}
	h.followed = append(h.followed, next.URL.String())
	return nil
}

// covered reports whether a redirect stays on the call's own target or moves it to https.
func (h *redirects) covered(host egress.Host, port uint16) bool {
	r := h.request
	return host == r.host && (port == r.port || r.port == 80 && port == 443)
}

// unlisted reports whether a host is only missing from the allowlist, not denied or at an address
// that is never reachable.
func (h *redirects) unlisted(host egress.Host, port uint16) bool {
	answer, _ := h.fetch.rules().Match(host, port)
	return answer == egress.Unlisted && h.fetch.rules().CheckAddress(host, port) == nil
}
