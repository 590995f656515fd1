package mcp

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// aliveEvery is the longest time without data on a stream: proxies and clients close an idle
// stream.
const aliveEvery = 15 * time.Second

// alive is the response to a request. The library writes the response as an event stream. After
// aliveEvery without data, alive sends a comment, which is not a message. If the answer is the
// only message, alive sends it as plain JSON: one write to the client instead of three.
type alive struct {
	w http.ResponseWriter
	// header is the header of the handler's response. It must not be read while the handler may
	// change it.
	header http.Header
	timer  *time.Timer
	// answered reports whether the request has an answer. Later writes are the answer, or come too
	// late to precede it.
	answered func() bool

	mu sync.Mutex
	// held is the first event that was written after the request had an answer. It is kept until
	// the end of the response, or until another event. nil means none.
	held []byte
	// begun is true once the status is written. commented is true if a comment was written first.
	// over is true once the response has ended.
	begun, commented, over bool
	// framed is true if the body must be sent as a message of the stream.
	framed bool
}

// keepAlive wraps a response; end must be called.
func keepAlive(w http.ResponseWriter, answered func() bool) (a *alive, end func()) {
	a = &alive{w: w, header: w.Header().Clone(), answered: answered}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(aliveEvery, a.comment)
	return a, a.end
}

func (a *alive) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.timer.Stop()
	switch {
	case a.held != nil:
		_, _ = a.releaseAlone() // a disconnected client gets no answer
	case !a.begun:
		maps.Copy(a.w.Header(), a.header)
	}
}

func (a *alive) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.held != nil {
		return
	}
	if !a.begun {
		a.begun, a.commented = true, true
		h := a.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		a.w.WriteHeader(http.StatusOK)
	}
	if _, err := a.w.Write([]byte(": the call continues\n\n")); err == nil {
		_ = http.NewResponseController(a.w).Flush() // a disconnected client needs no comment
	}
	a.timer.Reset(aliveEvery)
}

// begin writes the status. The caller holds mu.
func (a *alive) begin(status int) {
	if a.begun {
		// After a comment, an error with its own status is sent as a message.
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

// Write implements http.ResponseWriter. The library writes an event at a time.
func (a *alive) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun && a.held == nil && a.streams() && a.answered() {
		a.held = bytes.Clone(p)
		return len(p), nil
	}
	if err := a.release(); err != nil {
		return 0, err
	}
	a.timer.Reset(aliveEvery)
	if a.framed {
		_, err := a.w.Write(bytes.Join([][]byte{[]byte(messageEvent), bytes.TrimSpace(p), []byte(eventEnd)}, nil))
		return len(p), err
	}
	return a.w.Write(p)
}

// FlushError implements flushing for http.ResponseController.
func (a *alive) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held != nil {
		return nil
	}
	if !a.begun {
		a.begin(http.StatusOK)
	}
	return http.NewResponseController(a.w).Flush()
}

// streams reports whether the response is an event stream.
func (a *alive) streams() bool { return a.header.Get("Content-Type") == "text/event-stream" }

// release starts the response, and writes the held event. The caller holds mu.
func (a *alive) release() error {
	if !a.begun {
		a.begin(http.StatusOK)
	}
	held := a.held
	if a.held = nil; held == nil {
		return nil
	}
	_, err := a.w.Write(held)
	return err
}

// releaseAlone responds with the held event as the only message. The caller holds mu.
func (a *alive) releaseAlone() (int, error) {
	message, ok := answerIn(a.held)
	if !ok {
		return 0, a.release()
	}
	a.header.Set("Content-Type", "application/json")
	a.header.Set("Content-Length", strconv.Itoa(len(message)))
	a.header.Del("Connection") // the header applies only to the stream
	a.begin(http.StatusOK)
	return a.w.Write(message)
}

// The framing of the library's events.
const messageEvent, eventEnd = "event: message\ndata: ", "\n\n"

// answerIn returns the answer that an event contains. ok is false for an event with another
// message, and for data that is not an event of the library.
func answerIn(event []byte) (message []byte, ok bool) {
	message, begins := bytes.CutPrefix(event, []byte(messageEvent))
	message, ends := bytes.CutSuffix(message, []byte(eventEnd))
	return message, begins && ends && !bytes.Contains(message, []byte("\n")) && answers(message)
}

// answers reports whether a message is an answer, by the first member that distinguishes answers
// from requests.
func answers(message []byte) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(message))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return false
		}
		switch name.String() {
		case "result", "error":
			return true
		case "method":
			return false
		}
		if d.SkipValue() != nil {
			return false
		}
	}
}

// Unwrap returns the underlying response, for deadlines.
func (a *alive) Unwrap() http.ResponseWriter { return a.w }
