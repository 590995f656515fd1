package proxy

import (
	"bytes"
	"testing"
)

func TestJudge(t *testing.T) {
	for said, want := range map[string]guess{
		"GET / HTTP/1.1\r\n":               request,
		"GET / HTTP/1.1":                   request, // its line may go on, its version cannot go away
		"get / http/1.0\r\n":               request,
		"FROB / HTTP/1.1\n":                request,
		"\r\n\r\nGET / HTTP/1.1\r\n":       request,
		"GET\t/\tHTTP/1.1\r\n":             request,
		"GET\v/\vHTTP/1.1\r\n":             request,
		"GET / HTTP/1.1 extra\r\n":         request,
		"CONNECT a:1 HTTP/1.1\r\n":         request,
		"PRI * HTTP/2.0\r\n":               request,
		"GET /HTTP/ HTTP/1.1\r\n":          request,
		"G":                                undecided,
		"GET":                              undecided,
		"GET /long/path":                   undecided,
		"CONNECT {\"name\":":               undecided,
		"CONNECT {\"name\":1}\r\n":         opaque, // NATS
		"GET key\r\n":                      opaque, // a store
		"\r\n":                             loose,
		"hello":                            loose,
		"PING":                             loose,
		"GETTING":                          loose,
		"EHLO me\r\n":                      opaque,
		"SSH-2.0-me\r\n":                   opaque,
		"*1\r\n":                           opaque,
		"{\"id\":1}":                       loose,
		"\x00\x00\x00\x08\x04\xd2\x16\x2f": opaque, // PostgreSQL
		"003fgit-upload-pack /a\x00":       opaque,
		"GET /HTTP/1.1\r\n":                opaque, // no version, so no header follows
		"see xHTTP/1.1\r\n":                opaque,
	} {
		if got := new(firstLine).judge([]byte(said), []byte(said)); got != want {
			t.Errorf("judge(%q) = %d, want %d", said, got, want)
		}
	}
}

// However a stream is cut into pieces, a request in it is recognised before
// its first line is complete, or the stream is held back that far.
func FuzzFirstLine(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), uint8(3), uint8(5))
	f.Add([]byte("\r\nfrob / HTTP/1.1\r\n\r\n"), uint8(2), uint8(1))
	f.Add([]byte("hello HTTP/\n"), uint8(9), uint8(1))
	f.Fuzz(func(t *testing.T, said []byte, first, rest uint8) {
		whole := new(firstLine).judge(said, said)
		var line firstLine
		found := false
		size := int(first)
		for b := said; len(b) > 0 && !found; size = int(rest) {
			n := min(max(size, 1), len(b))
			found = line.see(b[:n]) != nil
			b = b[n:]
		}
		if found != (whole == request) {
			t.Errorf("%q is a request at once: %v, in pieces: %v", said, whole == request, found)
		}
		text := bytes.TrimLeft(said, "\r\n")
		if end := bytes.IndexAny(text, "\n\x00"); !found && line.over != (end >= 0) {
			t.Errorf("%q: over %v", said, line.over)
		}
	})
}
