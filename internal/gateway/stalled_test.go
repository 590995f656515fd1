package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

// TestStalledClient: a client that stops reading does not block its handler for ever. Control:
// a handler with a limit of an hour stays blocked.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	watched, control := flood(t, 50*time.Millisecond), flood(t, time.Hour)
	<-watched
	select {
	case <-control:
		t.Error("the client takes everything: the test shows nothing")
	default:
	}
}

// flood serves a client that does not read with an endless response. The channel is closed when
// the handler ends.
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
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil))(t)
	answer := must.Get(s.Client().Do(request))(t)
	t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != 2 {
		t.Fatalf("the server speaks %s", answer.Proto)
	}
	return ended
}

// slowWriter is a response writer whose writes and flushes take a configurable time.
type slowWriter struct {
	*httptest.ResponseRecorder
	write, flush time.Duration
	cut          bool
}

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(w.write)
	return w.ResponseRecorder.Write(p)
}

func (w *slowWriter) FlushError() error {
	time.Sleep(w.flush)
	return nil
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.cut = time.Until(at) < 0
	return nil
}

// TestOnlyStalledWritesDisconnect: a client is disconnected only if a write or flush exceeds
// the limit, and never while the handler writes nothing.
func TestOnlyStalledWritesDisconnect(t *testing.T) {
	t.Parallel()
	const after = 30 * time.Second
	for name, c := range map[string]struct {
		write, flush time.Duration
		cut          bool
	}{
		"at once":            {0, 0, false},
		"slowly":             {after - 1, after - 1, false},
		"a write that hangs": {after + 1, 0, true},
		"a flush that hangs": {0, after + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), write: c.write, flush: c.flush}
				cutOff(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(2 * after) // the handler writes nothing
					for range 2 {
						if _, err := w.Write([]byte("text")); err != nil {
							t.Error(err)
						}
						must.Check(t, http.NewResponseController(w).Flush())
						time.Sleep(2 * after)
					}
				}), after).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				time.Sleep(2 * after)
				if w.cut != c.cut {
					t.Errorf("cut off: %t, want %t", w.cut, c.cut)
				}
			})
		})
	}
}
