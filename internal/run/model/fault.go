package model

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// ErrCut is the error of a stream that ended before the turn.
var ErrCut = errors.New("the stream ended before the turn")

// Transient is a failure after which another attempt may succeed.
type Transient struct {
	// Err is the error for the caller if no attempt succeeds.
	Err *reason.Error
	// Wait is the delay that the provider requested; 0 leaves it to the backoff.
	Wait time.Duration
}

// Error returns the message of Err.
func (t *Transient) Error() string { return t.Err.Error() }

// Unwrap returns Err.
func (t *Transient) Unwrap() error { return t.Err }

// Unavailable returns a Transient of code MODEL_UNAVAILABLE.
func Unavailable(format string, args ...any) *Transient {
	return &Transient{Err: reason.Errorf(reason.ModelUnavailable, format, args...)}
}

// Failure classifies the error of an attempt, from HTTPClient or from reading its response: CANCELLED
// when ctx has ended, a Transient if a retry may help, and otherwise the reason of the failure.
// Messages of a provider are repeated without the key.
func Failure(ctx context.Context, key Key, err error) error {
	var (
		known  *reason.Error
		status *statusError
		broken *brokenError
		cert   *tls.CertificateVerificationError
	)
	switch {
	case ctx.Err() != nil:
		return cancelled(ctx)
	case errors.As(err, &known):
		return err
	case errors.As(err, &status):
		return status.failure(key)
	case errors.As(err, &cert):
		return reason.Errorf(reason.ModelUnavailable, "the certificate of the model's provider is not trusted: %s", key.clean(cert.Error()))
	case errors.As(err, &broken):
		return Unavailable("the connection to the model's provider failed: %s", key.clean(broken.Error()))
	case errors.Is(err, ErrCut):
		return Unavailable("the connection to the model's provider failed: %s", ErrCut)
	}
	return Invalid("%s", key.clean(err.Error()))
}

// Invalid returns the error of an answer that violates the provider's protocol.
func Invalid(format string, args ...any) error {
	return reason.Errorf(reason.ModelInvalid, "reading the answer of the model's provider: "+format, args...)
}

func cancelled(ctx context.Context) error {
	return reason.Errorf(reason.Cancelled, "the request to the model was cancelled: %w", context.Cause(ctx))
}

// FailureInStream classifies an error event of the stream; event is its JSON.
func FailureInStream(key Key, event []byte) error {
	said := parseSaid(event)
	if said.hopeless() || said.status != 0 && !retried(said.status) {
		return reason.Errorf(reason.ModelRejected, "the model's provider ended its answer with an error%s", said.quoted(key))
	}
	return Unavailable("the model's provider ended its answer with an error%s", said.quoted(key))
}

// retried reports whether a status is retried.
func retried(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500
}

func (e *statusError) failure(key Key) error {
	said := parseSaid(e.body)
	if e.status/100 == 3 {
		return reason.Errorf(reason.ModelRejected, "the model's provider answered with a redirect to %q", key.clean(e.header.Get("Location"))).
			WithRemedy("Set base_url to the final address; redirects are not followed.")
	}
	if !retried(e.status) || said.unpaid() {
		err := reason.Errorf(reason.ModelRejected, "the model's provider answered %d%s", e.status, said.quoted(key))
		if remedy, ok := remedies[e.status]; ok {
			err = err.WithRemedy("%s", remedy)
		}
		return err
	}
	failed := Unavailable("the model's provider answered %d%s", e.status, said.quoted(key))
	if e.header.Get("X-Should-Retry") == "false" {
		return failed.Err
	}
	failed.Wait = waitAsked(e.header, e.status, time.Now())
	return failed
}

// remedies are the next steps for rejected requests.
var remedies = map[int]string{
	http.StatusUnauthorized:          "Check that api_key_secret or api_key_file names a valid key.",
	http.StatusForbidden:             "Check the permissions of the model's API key.",
	http.StatusNotFound:              "Check model and base_url of the model in palyra.toml.",
	http.StatusRequestEntityTooLarge: "The conversation has become too large for the provider: start another run with the rest of the task.",
}

// providerError is the content of a provider's error.
type providerError struct {
	kind, code, message string
	// status is an HTTP status in the JSON, as llama.cpp sends it in streams.
	status int
}

var (
	// unpaidKinds are permanent error types and codes that OpenAI sends with status 429.
	unpaidKinds = []string{"insufficient_quota", "billing_error"}
	// hopelessKinds are permanent error types and codes that may come in a stream, without a
	// status.
	hopelessKinds = []string{
		"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large",
		"invalid_api_key", "model_not_found", "context_length_exceeded", "exceed_context_size_error",
	}
)

func (s providerError) unpaid() bool {
	return slices.Contains(unpaidKinds, s.kind) || slices.Contains(unpaidKinds, s.code)
}

func (s providerError) hopeless() bool {
	return s.unpaid() || slices.Contains(hopelessKinds, s.kind) || slices.Contains(hopelessKinds, s.code)
}

func (s providerError) quoted(key Key) string {
	switch text := key.clean(s.message); {
	case text != "" && s.kind != "":
		return fmt.Sprintf(" (%s): %s", key.clean(s.kind), text)
	case text != "":
		return ": " + text
	case s.kind != "":
		return fmt.Sprintf(" (%s)", key.clean(s.kind))
	}
	return ""
}

// parseSaid parses the known forms of errors: {"error": {"type", "code", "message"}}, the same
// without the outer object, {"error": "..."} and {"detail": "..."}. Any other body is the message
// itself.
func parseSaid(body []byte) providerError {
	var outer struct {
		Error  json.RawMessage `json:"error"`
		Detail any             `json:"detail"`
	}
	if canonical.Read(body, &outer) != nil {
		return providerError{message: string(body)}
	}
	if outer.Error == nil {
		outer.Error = body
	}
	var text string
	if json.Unmarshal(outer.Error, &text) == nil {
		return providerError{message: text}
	}
	var inner struct {
		Type    any `json:"type"`
		Code    any `json:"code"`
		Message any `json:"message"`
	}
	if canonical.Read(outer.Error, &inner) != nil {
		return providerError{message: string(body)}
	}
	out := providerError{kind: word(inner.Type), code: word(inner.Code), message: word(inner.Message)}
	if out.message == "" {
		out.message = word(outer.Detail)
	}
	if status, err := strconv.Atoi(out.code); err == nil && status >= 400 && status < 600 {
		out.status = status
	}
	return out
}

// word returns a JSON string or number as text.
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// unfit reports whether a rune must not be displayed: controls, separators, and marks that change
// the direction of text.
func unfit(r rune) bool {
	return unicode.IsSpace(r) || !unicode.IsGraphic(r) || unicode.Is(unicode.Bidi_Control, r)
}
