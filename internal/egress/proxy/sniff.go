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
	// undecided is the beginning of what may become an HTTP request.
	undecided guess = iota
	// request is an HTTP request.
	request
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
// was not judged before. Programs may wait for an answer to a few bytes without
// a line end, so only what begins like a method is held back.
func (l *firstLine) judge(all, fresh []byte) guess {
	switch {
	case l.see(fresh) != nil:
		return request
	case l.over:
		return opaque
	case maybeMethod(all):
		return undecided
	}
	return loose
}

// maybeMethod reports whether a line begins with a method, or may do so when
// more of it is there. Empty lines alone are nothing to wait after.
func maybeMethod(line []byte) bool {
	word, _, complete := bytes.Cut(bytes.TrimLeft(line, "\r\n"), []byte(" "))
	return len(word) > 0 && slices.ContainsFunc(methods, func(m string) bool {
		return m == string(word) || !complete && strings.HasPrefix(m, string(word))
	})
}

// firstLine looks out for an HTTP version in the first line of a stream: some
// servers take whatever has one for a request, with any method, any white space
// in between and empty lines before.
type firstLine struct {
	begun, over bool
	// last are the bytes before the next ones, as far as a version could have
	// begun in them.
	last []byte
}

var version = []byte("HTTP/")

// see takes the next bytes of the stream.
func (l *firstLine) see(b []byte) error {
	if !l.begun {
		b = bytes.TrimLeft(b, "\r\n")
	}
	if l.over || len(b) == 0 {
		return nil
	}
	l.begun = true
	end := bytes.IndexAny(b, "\n\x00")
	if l.over = end >= 0; l.over {
		b = b[:end]
	}
	line := append(l.last, b...)
	if namesVersion(line) {
		return broken(egress.ReasonBadHTTP)
	}
	l.last = slices.Clone(line[max(0, len(line)-len(version)):])
	return nil
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
