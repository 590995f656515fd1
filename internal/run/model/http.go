package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/version"
)

const (
	// MaxEvent bounds one event of a stream, and with it one line, in bytes.
	MaxEvent = 8 << 20
	// MaxStream bounds the whole answer, in bytes. It is far above any turn with its events, and
	// also ends an answer of discarded events.
	MaxStream = 512 << 20
	// maxErrorBody bounds the read part of a response that is not a stream, in bytes.
	maxErrorBody = 64 << 10
)

// errStalled is the cause of a request that the idle timeout ended.
var errStalled = errors.New("idle timeout")

// brokenError is a connection that failed or broke.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// statusError is a response that is not a stream.
type statusError struct {
	status int
	header http.Header
	body   []byte
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// HTTPClient returns the client for providers. It uses no proxy and follows no redirect,
// so that the key is sent to base_url alone. It ends a response that is idle for too long, and
// limits its size. Failure classifies its errors.
func HTTPClient(idle time.Duration) *http.Client {
	return &http.Client{Transport: &guard{idle: idle, next: &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer().DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}}}
}

// Post sends a JSON body to a provider and returns the response, a stream of events. The header has
// the fields of the provider, such as the key.
func Post(ctx context.Context, client *http.Client, address string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "palyra/"+version.String())
	return client.Do(req)
}

// guard converts every response that is not a stream to an error. Redirects are such errors, too,
// so that http.Client follows none.
type guard struct {
	next http.RoundTripper
	idle time.Duration
}

// RoundTrip makes one request.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	body := &stream{cause: func() error { return context.Cause(ctx) }, cancel: cancel, idle: g.idle}
	body.watch = time.AfterFunc(g.idle, func() { cancel(errStalled) })
	res, err := g.next.RoundTrip(req.WithContext(ctx))
	body.watch.Stop()
	if err != nil {
		err = body.broken(err)
		cancel(nil)
		return nil, err
	}
	body.rest = res.Body
	if err := refused(res, body); err != nil {
		_ = body.Close()
		return nil, err
	}
	res.Body = body
	return res, nil
}

// refused returns the error of a response that is not a stream, or nil.
func refused(res *http.Response, body io.Reader) error {
	if res.StatusCode != http.StatusOK {
		// An incomplete body is used as far as it was received.
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
		return &statusError{status: res.StatusCode, header: res.Header, body: text}
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == "text/html" || kind == "application/json" {
		return reason.Errorf(reason.ModelInvalid, "the model's provider answered with %s instead of an event stream", kind)
	}
	return nil
}

// stream is the body of a response. It limits the time that each Read waits for the provider,
// without the time between reads, and the size of each event.
type stream struct {
	rest io.ReadCloser
	// cause returns the reason for the end of the request, and cancel ends the request.
	cause  func() error
	cancel context.CancelCauseFunc
	watch  *time.Timer
	idle   time.Duration
	// line and event count the bytes since their start, and total counts all.
	line, event, total int
}

// Read reads for at most the idle timeout.
func (s *stream) Read(p []byte) (int, error) {
	s.watch.Reset(s.idle)
	n, err := s.rest.Read(p)
	s.watch.Stop()
	if tooLarge := s.measure(p[:n]); tooLarge != nil {
		return 0, tooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = s.broken(err)
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error {
	s.watch.Stop()
	s.cancel(nil)
	return s.rest.Close()
}

// measure counts the lines of an event stream; an empty line ends an event.
func (s *stream) measure(p []byte) error {
	if s.total += len(p); s.total > MaxStream {
		return reason.Errorf(reason.ModelInvalid, "the model's provider sent more than %d MiB for one turn", MaxStream>>20)
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.line += len(p)
			s.event += len(p)
			p = nil
		} else {
			empty := s.line+len(bytes.TrimSuffix(p[:end], []byte("\r"))) == 0
			s.line, s.event, p = 0, s.event+end+1, p[end+1:]
			if empty {
				s.event = 0
			}
		}
		if s.event > MaxEvent {
			return reason.Errorf(reason.ModelInvalid, "the model's provider sent an event of more than %d MiB", MaxEvent>>20)
		}
	}
	return nil
}

// broken distinguishes an idle timeout from other failures of the connection.
func (s *stream) broken(err error) error {
	if errors.Is(s.cause(), errStalled) {
		err = errStalled
	}
	return &brokenError{err}
}
