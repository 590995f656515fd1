package proxy

import (
	"bytes"
	"slices"
	"strings"

	"palyra/internal/egress"
)

// guess is what the first bytes of a program are.
type guess uint8

const (
	// undecided is the beginning of what has to be known before it is passed on.
	undecided guess = iota
	// request is an HTTP request.
	request
	// secure is TLS.
	secure
	// opaque is nothing that could be checked.
	opaque
	// loose is opaque so far, but its first line goes on.
	loose
)

// methods are those whose requests are recognised before their first line is
// complete. One with another method that comes in pieces is broken off.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY", "PRI",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH",
}

// judge says what a stream is of which all is there so far, and fresh is what
// was not judged before. It is nothing that a server takes for TLS (package
// hello). Programs may wait for an answer to a few bytes without a line end, so
// only what may become a request or a trick is held back. Errors are cuts.
func (l *firstLine) judge(all, fresh []byte) (guess, error) {
	switch {
	case bytes.HasPrefix(all, proxyLine):
		return opaque, denied(egress.ReasonBadHTTP)
	case l.see(fresh):
		return request, nil
	case l.over && likeRequest(all):
		return opaque, denied(egress.ReasonBadHTTP)
	case l.over:
		return opaque, nil
	case maybeMethod(all) || bytes.HasPrefix(proxyLine, all):
		return undecided, nil
	}
	return loose, nil
}

// proxyLine begins what a load balancer says of the client before the client's
// own words. Behind it could stand anything.
var proxyLine = []byte("PROXY ")

// maybeMethod reports whether a line begins with a method, or may do so when
// more of it is there. Empty lines alone are nothing to wait after.
func maybeMethod(line []byte) bool {
	word, _, complete := bytes.Cut(bytes.TrimLeft(line, "\r\n"), []byte(" "))
	return len(word) > 0 && slices.ContainsFunc(methods, func(m string) bool {
		return m == string(word) || !complete && strings.HasPrefix(m, string(word))
	})
}

// likeRequest reports whether a line begins with a method and what may be a
// target, so that a server might take it for a request without a version.
func likeRequest(line []byte) bool {
	fields := bytes.Fields(line)
	if len(fields) < 2 || !slices.Contains(methods, string(fields[0])) {
		return false
	}
	target := bytes.ToLower(fields[1])
	return target[0] == '/' || target[0] == '*' || bytes.HasPrefix(target, []byte("http"))
}

// firstLine looks out for an HTTP version in the first line of a stream: some
// servers take whatever has one for a request, with any method, any white space
// in between and empty lines before.
type firstLine struct {
	empty, begun, over bool
	// seen counts bytes.
	seen int
	// last are the bytes before the next ones, as far as a version could have
	// begun in them.
	last []byte
}

var version = []byte("HTTP/")

// mostLine is more than servers read of a first line.
const mostLine = 1 << 20

// see takes the next bytes of the stream, and reports whether it may be taken
// for a request. Empty lines and then a NUL are the binary form of proxyLine,
// which goes on "\x00\r\nQUIT\n".
func (l *firstLine) see(b []byte) bool {
	if l.over || len(b) == 0 {
		return false
	}
	l.seen += len(b)
	l.over = l.seen > mostLine
	if !l.begun {
		line := bytes.TrimLeft(b, "\r\n")
		l.empty = l.empty || len(line) < len(b)
		if b = line; len(b) == 0 {
			return false
		}
		if l.empty && b[0] == 0 {
			return true
		}
		l.begun = true
	}
	if end := bytes.IndexByte(b, '\n'); end >= 0 {
		b, l.over = b[:end], true
	}
	line := append(l.last, b...)
	l.last = slices.Clone(line[max(0, len(line)-len(version)):])
	return namesVersion(line)
}

// namesVersion reports whether a line holds a version behind white space.
func namesVersion(line []byte) bool {
	line = bytes.ToUpper(line)
	for {
		at := bytes.Index(line, version)
		switch {
		case at < 0:
			return false
		case at > 0 && strings.IndexByte(" \t\v\f\r", line[at-1]) >= 0:
			return true
		}
		line = line[at+len(version):]
	}
}
