package proxy

import (
	"bytes"
	"slices"
	"strings"

	"palyra/internal/egress"
)

// guess is the recognised protocol of a program's first bytes.
type guess uint8

const (
	// undecided is an incomplete beginning that must not be passed on yet.
	undecided guess = iota
	// request is an HTTP request.
	request
	// secure is TLS.
	secure
	// opaque is a protocol that is not checked.
	opaque
	// loose is opaque so far, but its first line is incomplete.
	loose
)

// methods are recognised before the first line of a request is complete. A request with another
// method that arrives in pieces is aborted.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY", "PRI",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH",
}

// judge classifies a stream from all its bytes so far; fresh are the bytes not yet judged. Package
// hello has already found that no server accepts the stream as TLS. A program may send a few bytes
// without a line end and wait for the answer, so only a possible request or attack is held back. An
// error is a *cut.
func (l *firstLine) judge(all, fresh []byte) (guess, error) {
	switch {
	case bytes.HasPrefix(all, proxyLine):
		return opaque, denied(egress.ReasonBadHTTP)
	case l.scan(fresh):
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

// proxyLine is the prefix of a load balancer's line about the client. The bytes after it could be
// any protocol.
var proxyLine = []byte("PROXY ")

// maybeMethod reports whether a line begins with a method, or may do so when more of it arrives.
// Empty lines alone are not held back.
func maybeMethod(line []byte) bool {
	word, _, complete := bytes.Cut(bytes.TrimLeft(line, "\r\n"), []byte(" "))
	return len(word) > 0 && slices.ContainsFunc(methods, func(m string) bool {
		return m == string(word) || !complete && strings.HasPrefix(m, string(word))
	})
}

// likeRequest reports whether a line begins with a method and a possible target, so that a server
// might accept it as a request without a version.
func likeRequest(line []byte) bool {
	fields := bytes.Fields(line)
	if len(fields) < 2 || !slices.Contains(methods, string(fields[0])) {
		return false
	}
	target := bytes.ToLower(fields[1])
	return target[0] == '/' || target[0] == '*' || bytes.HasPrefix(target, []byte("http"))
}

// firstLine searches for an HTTP version in the first line of a stream. Some servers accept any
// such line as a request, with any method, any white space in between, and empty lines before
// it.
type firstLine struct {
	empty, begun, over bool
	// seen counts bytes.
	seen int
	// last holds the most recent bytes in which a version may have begun.
	last []byte
}

var version = []byte("HTTP/")

// mostLine is longer than any first line that servers read.
const mostLine = 1 << 20

// scan processes the next bytes of the stream, and reports whether the stream may be a request.
// Empty lines followed by a NUL are the binary form of proxyLine, which continues with
// "\x00\r\nQUIT\n".
func (l *firstLine) scan(b []byte) bool {
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

// namesVersion reports whether a line contains a version after white space.
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
