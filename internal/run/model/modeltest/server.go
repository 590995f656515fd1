// Package modeltest has test servers that implement the wire formats of the models' providers. They
// validate requests as the real APIs do, and play fixtures: recorded streams from testdata, turns
// as model.Turn, or failures.
package modeltest

import (
	"embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/run/model"
)

//go:embed testdata
var recorded embed.FS

// Key is the API key that the servers accept.
const Key = "test-key-0123456789"

// Server plays one fixture for each request, in order. A request beyond the
// last one is refused and fails the test.
type Server struct {
	// URL is the base_url for a provider.
	URL string

	api      api
	t        testing.TB
	stalling chan struct{}
	gone     chan struct{}
	mu       sync.Mutex
	fixtures []Fixture
	requests []Request
}

// Request is a received request.
type Request struct {
	Header http.Header
	// Body is the JSON, and JSON its decoded form.
	Body []byte
	JSON map[string]any
}

// api contains the differences between the wire formats.
type api struct {
	name, base, path string
	// authorized checks the key, and check the rest of a request.
	authorized func(http.Header) bool
	check      func(map[string]any) error
	// failure returns the body of an error, and stream a turn as events.
	failure func(kind, message string) string
	stream  func(model.Turn) string
}

// Anthropic starts a server for the Messages API. It ends with the test.
func Anthropic(t testing.TB, fixtures ...Fixture) *Server { return start(t, anthropicAPI, fixtures) }

// OpenAI starts a server for chat completions that requires Key.
func OpenAI(t testing.TB, fixtures ...Fixture) *Server { return start(t, openaiAPI, fixtures) }

// Local starts a server for chat completions that accepts any client, like local servers.
func Local(t testing.TB, fixtures ...Fixture) *Server {
	keyless := openaiAPI
	keyless.authorized = func(http.Header) bool { return true }
	return start(t, keyless, fixtures)
}

func start(t testing.TB, api api, fixtures []Fixture) *Server {
	s := &Server{api: api, t: t, stalling: make(chan struct{}, 64), gone: make(chan struct{}, 64), fixtures: slices.Clone(fixtures)}
	web := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	s.URL = web.URL + api.base
	return s
}

// Endpoint returns a provider's endpoint for this server, with short waits.
func (s *Server) Endpoint() model.Endpoint {
	key := must.Get(model.NewKey(Key))(s.t)
	return model.Endpoint{Model: "test-model", BaseURL: s.URL, Key: key, Retries: model.Retries{Backoff: 2 * time.Millisecond}}
}

// Requests returns all received requests, including refused ones.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Stalling receives a value whenever a Stalled fixture has sent all its data.
func (s *Server) Stalling() <-chan struct{} { return s.stalling }

// Gone receives a value whenever a client disconnects while a Stalled fixture plays.
func (s *Server) Gone() <-chan struct{} { return s.gone }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := Request{Header: r.Header.Clone(), Body: body}
	decoded := json.Unmarshal(body, &got.JSON)
	fixture, refused := s.next(r, decoded, got)
	if refused != nil {
		reply(w, refused.status, s.api.failure(kindOf(refused.status), refused.message))
		return
	}
	fixture.play(w, r, s)
}

// refusal is the API's error for an invalid request.
type refusal struct {
	status  int
	message string
}

// next records a request and returns the fixture for it.
func (s *Server) next(r *http.Request, decoded error, got Request) (Fixture, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, got)
	switch {
	case r.URL.Path != s.api.path:
		return Fixture{}, &refusal{http.StatusNotFound, "no such path: " + r.URL.Path}
	case r.Method != http.MethodPost:
		return Fixture{}, &refusal{http.StatusMethodNotAllowed, "the method must be POST"}
	case !s.api.authorized(r.Header):
		return Fixture{}, &refusal{http.StatusUnauthorized, "invalid API key"}
	case decoded != nil:
		return Fixture{}, &refusal{http.StatusBadRequest, "the body is not JSON: " + decoded.Error()}
	}
	if err := s.api.check(got.JSON); err != nil {
		return Fixture{}, &refusal{http.StatusBadRequest, err.Error()}
	}
	if len(s.fixtures) == 0 {
		s.t.Errorf("modeltest: request %d has no fixture", len(s.requests))
		return Fixture{}, &refusal{http.StatusBadRequest, "modeltest has no fixture left"}
	}
	fixture := s.fixtures[0]
	s.fixtures = s.fixtures[1:]
	return fixture, nil
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
