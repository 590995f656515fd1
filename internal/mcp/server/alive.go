package server

import (
	"bytes"
	"maps"
	"net/http"
	"sync"
	"time"
)

// aliveEvery is how long a stream is silent at most: proxies and clients take one of
// which nothing comes for dead.
const aliveEvery = 15 * time.Second

// alive is the answer to a request that writes a comment to its stream of events when
// nothing else is written. Comments are no messages. What is not answered for so long is
// a stream: all else is answered at once.
type alive struct {
	w http.ResponseWriter
	// header is the handler's. It is not looked at while the handler may change it.
	header http.Header
	timer  *time.Timer

	mu sync.Mutex
	// begun says that the status is written, commented that a comment was the first.
	begun, commented, over bool
	// framed has the body be made a message of the stream.
	framed bool
}

// keepAlive wraps an answer; end has to be called.
func keepAlive(w http.ResponseWriter) (a *alive, end func()) {
	a = &alive{w: w, header: w.Header().Clone()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(aliveEvery, a.comment)
	return a, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.over = true; !a.begun {
			maps.Copy(a.w.Header(), a.header)
		}
		a.timer.Stop()
	}
}

func (a *alive) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if !a.begun {
		a.begun, a.commented = true, true
		h := a.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		a.w.WriteHeader(http.StatusOK)
	}
	if _, err := a.w.Write([]byte(": the call goes on\n\n")); err == nil {
		_ = http.NewResponseController(a.w).Flush() // who is gone needs no comment
	}
	a.timer.Reset(aliveEvery)
}

// begin writes the status. The caller holds mu.
func (a *alive) begin(status int) {
	if a.begun {
		// An error with a status of its own, after a comment, is a message like others.
		a.framed = a.commented && status >= http.StatusBadRequest
		return
	}
	a.begun = true
	maps.Copy(a.w.Header(), a.header)
	a.w.WriteHeader(status)
}

// Header implements http.ResponseWriter.
func (a *alive) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *alive) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(status)
}

// Write implements http.ResponseWriter.
func (a *alive) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		a.begin(http.StatusOK)
	}
	a.timer.Reset(aliveEvery)
	if a.framed {
		_, err := a.w.Write(bytes.Join([][]byte{[]byte("event: message\ndata: "), bytes.TrimSpace(p), []byte("\n\n")}, nil))
		return len(p), err
	}
	return a.w.Write(p)
}

// FlushError implements what http.ResponseController looks for.
func (a *alive) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun {
		a.begin(http.StatusOK)
	}
	return http.NewResponseController(a.w).Flush()
}

// Unwrap returns the answer itself, for deadlines.
func (a *alive) Unwrap() http.ResponseWriter { return a.w }
