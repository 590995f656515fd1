package daemon

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestStalledClient: a client that stops reading does not hold up its handler
// for ever. The control writes to the same kind of client without being watched.
func TestStalledClient(t *testing.T) {
	watched, control := flood(t, 50*time.Millisecond), flood(t, time.Hour)
	<-watched
	select {
	case <-control:
		t.Error("the client takes everything: the test shows nothing")
	default:
	}
}

// flood answers a client that does not read without end. The channel is closed
// when the handler ends.
func flood(t *testing.T, after time.Duration) <-chan struct{} {
	t.Helper()
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(cutOff(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
		}
	}), after))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != 2 {
		t.Fatalf("the server speaks %s", answer.Proto)
	}
	return ended
}
