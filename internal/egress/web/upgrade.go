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

// withoutH2C takes the offer to go on in HTTP/2 without TLS off a request, as
// clients make it that can do without (Java's on plain HTTP). A server need not
// take it up (RFC 9110 section 7.8), and no host hears of it.
func withoutH2C(r *http.Request) {
	if offers := r.Header["Upgrade"]; len(offers) == 1 && strings.EqualFold(strings.TrimSpace(offers[0]), "h2c") {
		r.Header.Del("Upgrade") // ReverseProxy and rewrite leave out the rest
	}
}

// acceptsWebSocket reports whether a host has understood the handshake (RFC
// 6455 section 4.2.2). One that only says 101 would go on reading HTTP, which
// nobody judges any more.
func acceptsWebSocket(h http.Header, key string) bool {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && h.Get("Sec-Websocket-Accept") == base64.StdEncoding.EncodeToString(sum[:])
}

// watched is a WebSocket to a host while there are secrets: what the host sends
// is scrubbed, and what the program sends is watched for placeholders, message
// by message.
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

// ReadFrom is what io.Copy uses to send.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ReadWriteCloser, newFrames(r, w.secrets, true))
	if why := secret.Word(err); why != "" {
		w.tell(why)
	}
	return n, err
}
