package web

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 has it so; nothing is kept secret by it
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"palyra/internal/egress/secret"
)

// webSocketKey returns the key of a request that is a whole opening handshake
// of WebSocket (RFC 6455 section 4.1), "" for any other.
func webSocketKey(r *http.Request) string {
	h := r.Header
	keys := h["Sec-Websocket-Key"]
	if r.Method != http.MethodGet || r.Proto != "HTTP/1.1" || r.ContentLength != 0 || len(keys) != 1 ||
		len(h["Upgrade"]) != 1 || !strings.EqualFold(h.Get("Upgrade"), "websocket") ||
		!httpguts.HeaderValuesContainsToken(h["Connection"], "upgrade") || h.Get("Sec-Websocket-Version") != "13" {
		return ""
	}
	if nonce, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(nonce) != 16 {
		return ""
	}
	return keys[0]
}

// withoutH2C removes the optional upgrade to HTTP/2 without TLS from a request, which some clients
// send (Java's on plain HTTP). A server may ignore it (RFC 9110 section 7.8), so it is not
// forwarded.
func withoutH2C(r *http.Request) {
	if offers := r.Header["Upgrade"]; len(offers) == 1 && strings.EqualFold(strings.TrimSpace(offers[0]), "h2c") {
		r.Header.Del("Upgrade") // ReverseProxy and rewrite leave out the rest
	}
}

// acceptsWebSocket reports whether a host has completed the handshake (RFC 6455 section 4.2.2). A
// host that merely answers 101 would continue with HTTP, which would not be inspected.
func acceptsWebSocket(h http.Header, key string) bool {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && h.Get("Sec-Websocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// watched is a WebSocket to a host while secrets exist: data of the host is scrubbed, and data of
// the program is searched for placeholders, message by message.
type watched struct {
	io.ReadWriteCloser
	from    *frames
	secrets *secret.Exchange
	tell    func(why string)
}

func newWatched(host io.ReadWriteCloser, secrets *secret.Exchange, tell func(why string)) *watched {
	return &watched{ReadWriteCloser: host, from: newFrames(host, secrets, false), secrets: secrets, tell: tell}
}

func (w *watched) Read(p []byte) (int, error) { return w.from.Read(p) }

// ReadFrom is used by io.Copy for sending.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ReadWriteCloser, newFrames(r, w.secrets, true))
	if why := secret.Word(err); why != "" {
		w.tell(why)
	}
	return n, err
}
