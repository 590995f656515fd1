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

// proxied serves a connection to the HTTP proxy. Its first request says whether
// it becomes a tunnel.
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

// tunnel serves a CONNECT request (RFC 9110, section 9.3.6). Whatever follows
// its head goes to the target, if anywhere: there is no second request.
func (v *service) tunnel(ctx context.Context, c *caller) {
	target, err := readConnect(c)
	if err != nil {
		v.refuseUnnamed(c, egress.LegConnect, err, egress.ReasonBadHTTP)
		if reason.Of(err) != reason.Internal {
			_ = answer(c, err) // who has gone is not told
		}
		return
	}
	v.reach(ctx, c, egress.LegConnect, v.named(target), func(err error) error { return answer(c, err) })
}

// The answers to what is no CONNECT request.
var (
	errHead = reason.Errorf(reason.EgressDenied, "The head of the CONNECT request is too large.").
		WithField("reason", egress.ReasonHeaderTooLarge)
	errConnect = reason.Errorf(reason.EgressDenied, "This is no well-formed CONNECT request.").
			WithField("reason", egress.ReasonBadHTTP)
)

// readConnect reads the head of a CONNECT request and returns its target. What
// was read beyond the head is put back.
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

// headReader keeps the error of reading: package http takes what came before it
// for a whole line.
type headReader struct {
	io.LimitedReader
	err error
}

func (h *headReader) Read(b []byte) (int, error) {
	n, err := h.LimitedReader.Read(b)
	h.err = err
	return n, err
}

// established is the answer to a CONNECT request that a tunnel came of.
var established = []byte("HTTP/1.1 200 Connection established\r\n\r\n")

// answer tells the client of the HTTP proxy what came of its CONNECT request.
func answer(c *caller, err error) error {
	raw := established
	if err != nil {
		raw = web.RefusalOf(err)
	}
	_, failed := c.Write(raw)
	return failed
}
