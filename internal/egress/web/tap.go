package web

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"palyra/internal/egress"
)

// tap is a client's connection as package http's server uses it. It keeps the
// heads of requests as they came, since the server hides some of what they
// said, and it notices where the server refuses by itself, without a handler.
type tap struct {
	net.Conn
	// refuse records a refusal and returns the answer.
	refuse func(why, detail string) []byte

	mu sync.Mutex
	// raw is what came and was not accounted for: the head of the next request,
	// and of what follows it as much as the server read ahead.
	raw []byte
	// skip is how much of a body is to come before the next head.
	skip int64
	// deaf means that no further head is looked at.
	deaf bool
	// asked is true from where a handler has a request until the server has
	// answered; served once there was a request.
	asked, served bool
	// refused means that the connection ends with a refusal.
	refused bool
}

// Read keeps what was read.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	t.keep(p[:n])
	slow := errors.Is(err, os.ErrDeadlineExceeded) && !t.asked && !t.refused && (len(t.raw) > 0 || !t.served)
	if slow {
		t.refused = true
	}
	t.mu.Unlock()
	if slow {
		t.refuse(egress.ReasonSlow, "")
	}
	return n, err
}

func (t *tap) keep(b []byte) {
	if t.deaf {
		return
	}
	drop := min(t.skip, int64(len(b)))
	t.skip -= drop
	t.raw = append(t.raw, b[drop:]...)
}

// head hands the head of the request over that a handler has got, whose body
// has length bytes; a negative length means that it is not known, and that the
// connection ends after this request.
func (t *tap) head(length int64) (head []byte, problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked, t.served = true, true
	head, rest, problem := cutHead(t.raw)
	if length < 0 || problem != "" {
		t.raw, t.deaf = nil, true
		return head, problem
	}
	drop := min(length, int64(len(rest)))
	t.skip = length - drop
	t.raw = bytes.Clone(rest[drop:])
	return head, ""
}

// leave says that what follows is no HTTP.
func (t *tap) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.raw, t.deaf = nil, true
}

// end says that a handler refuses, after which the connection ends.
func (t *tap) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = true
}

// idle says that the answer is complete.
func (t *tap) idle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = false
}

// Write replaces what the server says by itself.
func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	asked, again := t.asked, t.refused
	t.refused = t.refused || !asked
	t.mu.Unlock()
	if asked {
		return t.Conn.Write(p)
	}
	if again {
		return len(p), nil
	}
	why := egress.ReasonBadHTTP
	if bytes.HasPrefix(p, []byte("HTTP/1.1 431")) {
		why = egress.ReasonHeaderTooLarge
	}
	_, detail, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	if _, err := t.Conn.Write(t.refuse(why, strings.TrimSpace(string(detail)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close lets the client read a refusal to its end before. A connection that is
// closed with something unread in it is reset, and the client may see that
// first.
func (t *tap) Close() error {
	t.mu.Lock()
	refused := t.refused
	t.refused, t.deaf = false, true
	t.mu.Unlock()
	if refused && t.CloseWrite() == nil && t.Conn.SetReadDeadline(time.Now().Add(farewell)) == nil {
		_, _ = io.CopyN(io.Discard, t.Conn, mostFarewell) // whatever ends it
	}
	return t.Conn.Close()
}

// What a client that was refused may say yet, unheard.
const (
	farewell     = 250 * time.Millisecond
	mostFarewell = 64 << 10
)

// CloseWrite is what the server and WebSockets end one direction with.
func (t *tap) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Conn.Close()
}
