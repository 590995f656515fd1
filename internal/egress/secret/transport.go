package secret

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// Transport inserts secrets into outgoing requests, one hop at a time, so that the client never
// holds them, and removes them from answers. Next MUST verify every certificate.
type Transport struct {
	Next    http.RoundTripper
	Secrets *Exchange
}

// RoundTrip implements http.RoundTripper.
func (e Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.Secrets.Idle() {
		return e.Next.RoundTrip(r)
	}
	out := r.Clone(r.Context())
	response, err := e.exchange(out)
	if err != nil {
		if out.Body != nil {
			_ = out.Body.Close() // as http.RoundTripper requires; the error is known
		}
		return nil, e.scrubbed(err)
	}
	response.Request = r
	response.Body = scrubbedBody{response.Body, e}
	return response, nil
}

// exchange sends out, which it may modify. Next verifies every certificate, so a request by
// https counts as verified.
func (e Transport) exchange(out *http.Request) (*http.Response, error) {
	target, err := targetOf(out.URL)
	if err != nil {
		return nil, err
	}
	if err := e.Secrets.Apply(out.Context(), out, target, out.URL.Scheme == "https"); err != nil {
		return nil, err
	}
	response, err := e.Next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if err := e.Secrets.ScrubResponse(response, target); err != nil {
		_ = response.Body.Close() // the error is known
		return nil, err
	}
	return response, nil
}

// scrubbedBody removes values from read errors, which quote server data.
type scrubbedBody struct {
	io.ReadCloser
	of Transport
}

func (b scrubbedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, b.of.scrubbed(err)
}

// scrubbed returns err unless its text contains a value; it then also drops the wrapped error.
func (e Transport) scrubbed(err error) error {
	if err == nil {
		return nil
	}
	text := e.Secrets.ScrubText(err.Error())
	if text == err.Error() {
		return err
	}
	if code := reason.Of(err); code != reason.Internal {
		return reason.Errorf(code, "%s", text)
	}
	return errors.New(text)
}

// targetOf returns the target of a request.
func targetOf(u *url.URL) (egress.Target, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return egress.ParseTarget(net.JoinHostPort(u.Hostname(), port))
}
