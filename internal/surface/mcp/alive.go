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

// aliveEvery is how long a stream is silent at most: proxies and clients take one of
// which nothing comes for dead.
const aliveEvery = 15 * time.Second

// alive is the answer to a request. The library makes a stream of events of it. When
// nothing is written for a while it gets a comment, which is no message; and when all that
// was to be said is the one message that answers the request, it is that message as JSON,
// which is one write to the client and not three.
type alive struct {
	w http.ResponseWriter
	// header is the handler's. It is not looked at while the handler may change it.
	header http.Header
	timer  *time.Timer
	// answered reports whether what is written from now on is the answer, or came too
	// late to be before it.
	answered func() bool

	mu sync.Mutex
	// held is the first event, of a request that was answered when it was written: it
	// waits for the end, or for another. nil is none.
	held []byte
	// begun says that the status is written, commented that a comment was the first.
	begun, commented, over bool
	// framed has the body be made a message of the stream.
	framed bool
}

// keepAlive wraps an answer; end has to be called.
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
		_, _ = a.releaseAlone() // who is gone gets no answer
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

// FlushError implements what http.ResponseController looks for.
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

// streams reports whether the answer is a stream of events.
func (a *alive) streams() bool { return a.header.Get("Content-Type") == "text/event-stream" }

// release begins the answer, and writes the event that waits. The caller holds mu.
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

// releaseAlone answers with the event that waits, behind which nothing came. The caller
// holds mu.
func (a *alive) releaseAlone() (int, error) {
	message, ok := answerIn(a.held)
	if !ok {
		return 0, a.release()
	}
	a.header.Set("Content-Type", "application/json")
	a.header.Set("Content-Length", strconv.Itoa(len(message)))
	a.header.Del("Connection") // it was for the stream
	a.begin(http.StatusOK)
	return a.w.Write(message)
}

// How the library writes an event.
const messageEvent, eventEnd = "event: message\ndata: ", "\n\n"

// answerIn is the answer to a request that an event holds; ok is false for another
// message, and for what is no event as the library writes them.
func answerIn(event []byte) (message []byte, ok bool) {
	message, begins := bytes.CutPrefix(event, []byte(messageEvent))
	message, ends := bytes.CutSuffix(message, []byte(eventEnd))
	return message, begins && ends && !bytes.Contains(message, []byte("\n")) && answers(message)
}

// answers reports whether a message is an answer, by the first of its members that tells
// answers and requests apart.
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

// Unwrap returns the answer itself, for deadlines.
func (a *alive) Unwrap() http.ResponseWriter { return a.w }
