package proxy

import (
	"bytes"
	"testing"

	"palyra/internal/egress"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]guess{
		"GET / HTTP/1.1\r\n":               request,
		"GET / HTTP/1.1":                   request, // the line may continue, but it contains the version
		"get / http/1.0\r\n":               request,
		"FROB / HTTP/1.1\n":                request,
		"\r\n\r\nGET / HTTP/1.1\r\n":       request,
		"GET\t/\tHTTP/1.1\r\n":             request,
		"GET\v/\vHTTP/1.1\r\n":             request,
		"GET / HTTP/1.1 extra\r\n":         request,
		"GET /\x00 HTTP/1.1\r\n":           request, // a malformed one
		"FROB /\x00 HTTP/1.1\r\n":          request,
		"CONNECT a:1 HTTP/1.1\r\n":         request,
		"PRI * HTTP/2.0\r\n":               request,
		"GET /HTTP/ HTTP/1.1\r\n":          request,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11":   request, // binary PROXY, which package web refuses
		"G":                                undecided,
		"GET":                              undecided,
		"GET /long/path":                   undecided,
		"GET /\x00":                        undecided,
		"CONNECT {\"name\":":               undecided,
		"P":                                undecided,
		"PROXY":                            undecided,
		"CONNECT {\"name\":1}\r\n":         opaque, // NATS
		"GET key\r\n":                      opaque, // a key-value store
		"EHLO me\r\n":                      opaque,
		"SSH-2.0-me\r\n":                   opaque,
		"*1\r\n":                           opaque,
		"see xHTTP/1.1\r\n":                opaque,
		"\r\n":                             loose,
		"hello":                            loose,
		"PING":                             loose,
		"GETTING":                          loose,
		"{\"id\":1}":                       loose,
		"\x00\x00\x00\x08\x04\xd2\x16\x2f": loose, // PostgreSQL
		"003fgit-upload-pack /a\x00":       loose,
		"\xff\xff\x01\x01\x00":             loose,
	} {
		if got, err := new(firstLine).judge([]byte(said), []byte(said)); got != want || err != nil {
			t.Errorf("judge(%q) = %d, %v, want %d", said, got, err, want)
		}
	}
	for said, want := range map[string]string{
		"GET /\r\n":                          egress.ReasonBadHTTP, // HTTP/0.9, or the start of more
		"GET /HTTP/1.1\r\n":                  egress.ReasonBadHTTP,
		"GET  \t/x\n":                        egress.ReasonBadHTTP,
		"OPTIONS *\r\n":                      egress.ReasonBadHTTP,
		"GET HTTPS://evil.test/\r\n":         egress.ReasonBadHTTP,
		"PROXY ":                             egress.ReasonBadHTTP,
		"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n": egress.ReasonBadHTTP,
	} {
		_, err := new(firstLine).judge([]byte(said), []byte(said))
		if c, ok := asCut(err); !ok || c.reason != want || c.verdict != egress.VerdictDenied {
			t.Errorf("judge(%q): %v, want %s", said, err, want)
		}
	}
}

// The inspection of a stream without line ends stops at a limit.
func TestAFirstLineWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{"zeros": "\x00", "empty lines": "\r\n", "text": "text"} {
		var line firstLine
		for range mostLine/len(said) + 1 {
			if line.scan([]byte(said)) {
				t.Fatalf("%s: it is taken for a request", name)
			}
		}
		if !line.over {
			t.Errorf("%s: the watch goes on after %d bytes", name, line.seen)
		}
	}
}

// However a stream is split into pieces, a request in it is recognized before its first line is
// complete, or the stream is held back up to there.
func FuzzFirstLine(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), uint8(3), uint8(5))
	f.Add([]byte("\r\nfrob / HTTP/1.1\r\n\r\n"), uint8(2), uint8(1))
	f.Add([]byte("hello HTTP/\n"), uint8(9), uint8(1))
	f.Fuzz(func(t *testing.T, said []byte, first, rest uint8) {
		whole := new(firstLine).scan(said)
		var line firstLine
		found := false
		size := int(first)
		for b := said; len(b) > 0 && !found; size = int(rest) {
			n := min(max(size, 1), len(b))
			found = line.scan(b[:n])
			b = b[n:]
		}
		if found != whole {
			t.Errorf("%q is a request at once: %v, in pieces: %v", said, whole, found)
		}
		text := bytes.TrimLeft(said, "\r\n")
		if end := bytes.IndexByte(text, '\n'); !found && line.over != (end >= 0) {
			t.Errorf("%q: over %v", said, line.over)
		}
	})
}
