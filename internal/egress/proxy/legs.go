package proxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy/socks"
)

// target returns the target of a connection on the transparent leg: the name that its address
// represents, or the address itself. An address of the sandbox's own loopback reaches nothing,
// unless a rule names that address, which then means the machine's loopback. On the other legs the
// target is not known yet.
func (v *service) target(c *caller, leg string) egress.Target {
	if leg != egress.LegTransparent {
		return egress.Target{}
	}
	at := c.destination()
	return v.named(egress.Target{Host: egress.HostOf(at.Addr()), Port: at.Port()})
}

// named replaces a synthetic address by the name that it represents. Clients of a proxy may also
// have resolved the name themselves.
func (v *service) named(t egress.Target) egress.Target {
	if addr, ok := t.Host.Addr(); ok {
		if name, ok := v.names.Lookup(addr); ok {
			t.Host = name
		}
	}
	return t
}

// captured serves a transparent connection. A denied program receives a reset.
func (v *service) captured(ctx context.Context, c *caller) {
	switch c.destination() {
	case namesAt:
		v.name(ctx, c)
	case httpAt:
		v.proxied(ctx, c)
	case socksAt:
		v.socks(ctx, c)
	default:
		v.reach(ctx, c, egress.LegTransparent, v.target(c, egress.LegTransparent), nil)
	}
}

// name serves a connection to the name service.
func (v *service) name(ctx context.Context, c *caller) {
	v.budget.connections.take(1)
	v.names.ServeConn(ctx, c)
}

// socks serves a connection to the SOCKS proxy.
func (v *service) socks(ctx context.Context, c *caller) {
	if err := v.begun(c); err != nil {
		v.refuseUnnamed(c, egress.LegSOCKS, err, egress.ReasonBadSOCKS)
		return
	}
	in := bufio.NewReader(c)
	target, err := socks.Accept(readWriter{in, c})
	c.unread(buffered(in))
	if err != nil {
		v.refuseUnnamed(c, egress.LegSOCKS, err, egress.ReasonBadSOCKS)
		return
	}
	v.reach(ctx, c, egress.LegSOCKS, v.named(target), func(err error) error { return socks.Reply(c, err) })
}

type readWriter struct {
	io.Reader
	io.Writer
}

// buffered returns a copy of the bytes that r has read ahead.
func buffered(r *bufio.Reader) []byte {
	b, _ := r.Peek(r.Buffered()) // all there
	return append([]byte(nil), b...)
}

// begun waits for the first data of the program, and sets the deadline for the rest.
func (v *service) begun(c *caller) error {
	if len(c.early) == 0 {
		if err := c.patience(v.waits.first); err != nil {
			return err
		}
		if err := c.more(c.Conn.Read); err != nil {
			return err
		}
	}
	return c.patience(v.waits.rest)
}

// refuseUnnamed records a proxy client that did not name a target because it was too slow or
// its request was malformed. word is the reason for a malformed request. A client that only
// disconnected is not recorded.
func (v *service) refuseUnnamed(c *caller, leg string, err error, word string) {
	var e *reason.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		v.refuse(leg, egress.Target{}, egress.ReasonSlow)
		reset(c.Conn)
	case errors.As(err, &e):
		v.refuse(leg, egress.Target{}, cmp.Or(e.Fields["reason"], word))
	}
}
