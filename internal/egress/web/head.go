package web

import (
	"bytes"
	"net/http"
	"strings"

	"palyra/internal/egress"
)

// cutHead splits received bytes after the head of a request. It is stricter than package http:
// every line ends in CRLF, and no line is folded (RFC 9112 sections 2.2 and 5.2). Empty lines
// before a request are skipped.
func cutHead(raw []byte) (head, rest []byte, problem string) {
	raw = bytes.TrimLeft(raw, "\r\n")
	rest = raw
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if !found {
			return raw, nil, "The header does not end."
		}
		rest = after
		text, ok := bytes.CutSuffix(line, []byte("\r"))
		switch {
		case !ok || bytes.ContainsRune(text, '\r'):
			return raw, nil, "A line does not end in CRLF."
		case len(text) == 0:
			return raw[:len(raw)-len(rest)], rest, ""
		case text[0] == ' ' || text[0] == '\t':
			return raw, nil, "A header line is folded."
		}
	}
}

// checkHead compares the received head of a request with the request parsed by package http.
func (c client) checkHead(r *http.Request, t egress.Target) error {
	if c.tap == nil {
		return checkSize(r, t)
	}
	head, problem := c.tap.head(r.ContentLength)
	switch {
	case len(head) > MaxHeader:
		return refused(t, egress.ReasonHeaderTooLarge, "At most %d bytes are possible.", MaxHeader)
	case problem != "":
		return refused(t, egress.ReasonBadHTTP, "%s", problem)
	}
	lines := strings.Split(string(head), "\r\n")
	if lines[0] != r.Method+" "+r.RequestURI+" "+r.Proto {
		return refused(t, egress.ReasonBadHTTP, "The first line is ambiguous.")
	}
	fields := http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		fields.Add(name, strings.TrimSpace(value))
	}
	if len(fields["Transfer-Encoding"]) > 0 && (len(fields["Content-Length"]) > 0 || r.ProtoMinor == 0) {
		return refused(t, egress.ReasonBadHTTP, "Transfer-Encoding and Content-Length, or HTTP/1.0, do not go together.")
	}
	if host := fields["Host"]; r.URL.IsAbs() && len(host) > 0 {
		return c.checkHost(host[0], t)
	}
	return nil
}

// checkSize measures a header of HTTP/2, which is compressed on the wire.
func checkSize(r *http.Request, t egress.Target) error {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value) + len(": \r\n")
		}
	}
	if size > MaxHeader {
		return refused(t, egress.ReasonHeaderTooLarge, "At most %d bytes are possible.", MaxHeader)
	}
	return nil
}
