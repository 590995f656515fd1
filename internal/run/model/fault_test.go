package model

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestParseProviderError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]providerError{
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: {kind: "overloaded_error", message: "Overloaded"},
		`{"error":{"message":"no","type":"invalid_request_error","code":"x"}}`:        {kind: "invalid_request_error", code: "x", message: "no"},
		`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`: {kind: "unavailable_error", code: "503", message: "Loading model", status: 503},
		`{"object":"error","message":"too long","type":"BadRequestError","code":400}`: {kind: "BadRequestError", code: "400", message: "too long", status: 400},
		`{"error":"model not found"}`: {message: "model not found"},
		`{"detail":"Not Found"}`:      {message: "Not Found"},
		`{"error":[1]}`:               {message: `{"error":[1]}`},
		`{"error":{"message":{}}}`:    {},
		`<html>`:                      {message: "<html>"},
		``:                            {},
		`[]`:                          {message: "[]"},
		`{"error":null}`:              {},
	} {
		if got := parseSaid([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the run was cancelled"))
	wrapped := func(err error) error { return &url.Error{Op: "Post", URL: "https://model.test/secret", Err: err} }
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		code  reason.Code
		again bool
	}{
		"cancelled":   {ctx: ended, err: ErrCut, code: reason.Cancelled},
		"network":     {err: wrapped(&brokenError{errors.New("connection refused")}), code: reason.ModelUnavailable, again: true},
		"cut":         {err: ErrCut, code: reason.ModelUnavailable, again: true},
		"certificate": {err: wrapped(&brokenError{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}), code: reason.ModelUnavailable},
		"status 500":  {err: wrapped(&statusError{status: 500}), code: reason.ModelUnavailable, again: true},
		"status 302":  {err: wrapped(&statusError{status: 302}), code: reason.ModelRejected},
		"status 204":  {err: wrapped(&statusError{status: 204}), code: reason.ModelRejected},
		"decoding":    {err: errors.New("invalid character"), code: reason.ModelInvalid},
		"known":       {err: fmt.Errorf("reading: %w", reason.Errorf(reason.ModelInvalid, "too large")), code: reason.ModelInvalid},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		err := Failure(c.ctx, Key{}, c.err)
		var failed *Transient
		if reason.Of(err) != c.code || errors.As(err, &failed) != c.again || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailureInStream(t *testing.T) {
	t.Parallel()
	for event, again := range map[string]bool{
		`{"error":{"type":"overloaded_error"}}`:             true,
		`{"error":{"type":"api_error"}}`:                    true,
		`{"error":{"type":"rate_limit_error"}}`:             true,
		`{"error":{"code":503,"type":"unavailable_error"}}`: true,
		`{"error":{"type":"server_error","code":null}}`:     true,
		`not JSON`: true,
		`{"error":{"type":"invalid_request_error"}}`:                    false,
		`{"error":{"code":400,"type":"exceed_context_size_error"}}`:     false,
		`{"error":{"code":"context_length_exceeded","message":"long"}}`: false,
		`{"error":{"code":"insufficient_quota"}}`:                       false,
	} {
		var failed *Transient
		if err := FailureInStream(Key{}, []byte(event)); errors.As(err, &failed) != again {
			t.Errorf("%s: %v", event, err)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	key := must.Get(NewKey("sk-secret"))(t)
	for text, want := range map[string]string{
		"a sk-secret b":                         "a [redacted] b",
		"one\r\n\ttwo\x00\x1b[31m\u202e":        "one two [31m",
		"bad \xff byte":                         "bad ? byte",
		strings.Repeat("x", 492) + " sk-secret": strings.Repeat("x", 492) + " [redact...",
		strings.Repeat("ä", 300):                strings.Repeat("ä", 250) + "...",
	} {
		if got := key.clean(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
