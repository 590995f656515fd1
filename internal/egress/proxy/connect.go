package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/web"
)

var connectMethod = []byte(http.MethodConnect + " ")

// proxied serves a connection to the HTTP proxy. Its first request determines whether it becomes a
// tunnel.
func (v *service) proxied(ctx context.Context, c *caller) {
	err := v.begun(c)
	for err == nil && len(c.early) < len(connectMethod) && bytes.HasPrefix(connectMethod, c.early) {
		err = c.more(c.Conn.Read)
	}
	switch {
	case err != nil:
		v.refuseUnnamed(c, egress.LegConnect, err, egress.ReasonBadHTTP)
	case bytes.HasPrefix(c.early, connectMethod):
		v.tunnel(ctx, c)
	default:
		v.forward(ctx, c)
	}
}

// tunnel serves a CONNECT request (RFC 9110, section 9.3.6). The bytes after its head are for the
// target only: a second request is not possible.
func (v *service) tunnel(ctx context.Context, c *caller) {
	target, err := readConnect(c)
	if err != nil {
		v.refuseUnnamed(c, egress.LegConnect, err, egress.ReasonBadHTTP)
		if reason.Of(err) != reason.Internal {
			_ = answer(c, err) // the client may have disconnected
		}
		return
	}
	v.reach(ctx, c, egress.LegConnect, v.named(target), func(err error) error { return answer(c, err) })
}

// The answers to invalid CONNECT requests.
var (
	errHead = reason.Errorf(reason.EgressDenied, "The head of the CONNECT request is too large.").
		WithField("reason", egress.ReasonHeaderTooLarge)
	errConnect = reason.Errorf(reason.EgressDenied, "This is not a well-formed CONNECT request.").
			WithField("reason", egress.ReasonBadHTTP)
)

// readConnect reads the head of a CONNECT request and returns its target. Bytes read beyond the
// head can be read again.
func readConnect(c *caller) (egress.Target, error) {
	head := &headReader{LimitedReader: io.LimitedReader{R: c, N: web.MaxHeader}}
	in := bufio.NewReader(head)
	r, err := http.ReadRequest(in)
	c.unread(buffered(in))
	switch {
	case err != nil && head.N == 0:
		return egress.Target{}, errHead
	case err != nil && head.err != nil:
		return egress.Target{}, head.err
	case err != nil || r.ProtoMajor != 1 || r.ContentLength != 0 || len(r.TransferEncoding) != 0:
		return egress.Target{}, errConnect
	}
	return egress.ParseTarget(r.RequestURI)
}

// headReader keeps the read error, because package http treats the bytes before it as a
// complete line.
type headReader struct {
	io.LimitedReader
	err error
}

func (h *headReader) Read(b []byte) (int, error) {
	n, err := h.LimitedReader.Read(b)
	h.err = err
	return n, err
}

// established is the answer to a successful CONNECT request.
var established = []byte("HTTP/1.1 200 Connection established\r\n\r\n")

// answer sends the client of the HTTP proxy the result of its CONNECT request.
func answer(c *caller, err error) error {
	raw := established
	if err != nil {
		raw = web.RefusalOf(err)
	}
	_, failed := c.Write(raw)
	return failed
}
