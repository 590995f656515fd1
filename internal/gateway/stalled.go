package gateway

import (
	"net/http"
	"sync"
	"time"
)

// stalledAfter is how long a client may leave an answer unread. A call waits for its observers, and
// holds its sandbox meanwhile.
const stalledAfter = 30 * time.Second

// cutOff aborts requests whose client leaves an answer unread for the duration after, as if the
// client had disconnected.
func cutOff(h http.Handler, after time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched := &watchedWriter{ResponseWriter: w, control: http.NewResponseController(w), after: after}
		watched.timer = time.AfterFunc(after, watched.cut)
		watched.timer.Stop()
		defer func() {
			watched.timer.Stop()
			watched.mu.Lock()
			defer watched.mu.Unlock()
			watched.ended = true
		}()
		h.ServeHTTP(watched, r)
	})
}

// watchedWriter runs the timer while something is written.
type watchedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timer   *time.Timer
	after   time.Duration

	mu    sync.Mutex
	ended bool
}

// cut ends a pending write. A deadline in the future would also end the stream while no write is
// pending.
func (w *watchedWriter) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended { // after the end, the server reuses the writer
		_ = w.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.timer.Reset(w.after)
	defer w.timer.Stop()
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *watchedWriter) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *watchedWriter) FlushError() error {
	w.timer.Reset(w.after)
	defer w.timer.Stop()
	return w.control.Flush()
}
