package jail

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox/inside"
)

// Resolver is the content of resolv.conf(5) inside: the name server is the proxy,
// if there is one. It sets no timeout, so that the default of 5 s holds: on a busy
// machine an answer may take longer than a second.
const Resolver = "nameserver 127.0.0.1\n"

// Open lets the program of a plan reach what g says. The plan has to have a
// network namespace in which palyra-init has the capabilities to listen and to add
// routes. Where the proxy inspects hosts, it has a certificate authority: the
// backend then puts Proxy.Bundle into a file at Plan.Bundle.
func (m *Machine) Open(p *Plan, g egress.Reach, out proxy.Outward) error {
	carrier, err := proxy.New(g, out)
	if err != nil {
		return err
	}
	p.Proxy, p.Spec.Inner.Network = carrier, &inside.Network{Outside: m.own["net"], Ports: carrier.Ports()}
	return nil
}

// admit receives the listeners and lets the proxy serve on them, beside the
// program, until part is called.
func (c *Cell) admit(ctx context.Context) error {
	report, fds, err := receive(c.control, inside.MaxListeners)
	if err != nil {
		return err
	}
	l, ports, err := listeners(*c.plan.Spec.Inner.Network, fds)
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "the listeners from inside cannot be used: %w", err)
	}
	c.seen.captured, c.seen.ports = report.Captured, ports
	// The end of the call is not that of the proxy: a program that is stopped
	// for it has its last connections in the report.
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c.stopServing = stop
	go func() {
		err := c.plan.Proxy.Serve(ctx, l)
		if ctx.Err() == nil {
			// The cause may hold more than callers are to see.
			err = errors.Join(reason.Errorf(reason.SandboxUnavailable, "the way to the allowed hosts broke down, and the program was stopped").
				WithRemedy("Try again; if it happens again, look at palyrad's log and report it."), err)
		}
		c.served <- err
	}()
	return nil
}

// part ends the proxy of a program that has ended, and the connections that it
// still carries. When cause is proxy.ErrEnded, bytes that the program has already
// sent are still delivered, for at most a second.
func (c *Cell) part(cause error) error {
	if c.stopServing == nil {
		return nil
	}
	c.stopServing(cause)
	c.stopServing = nil
	return <-c.served
}

// listeners makes of descriptors what a proxy serves on, and takes them over.
// Ports are those at which every connection arrives.
func listeners(n inside.Network, fds []int) (l proxy.Listeners, ports []int, err error) {
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "listener")
	}
	defer closeAll(files)
	want := n.Listeners()
	if len(files) != len(want) {
		return l, nil, unix.EBADMSG
	}
	for i, w := range want {
		if err := add(&l, w, files[i]); err != nil {
			l.Close()
			return proxy.Listeners{}, nil, err
		}
		if w.Everywhere {
			ports = append(ports, int(w.Port))
		}
	}
	return l, ports, nil
}

// add puts a socket into its place once it is seen to be what belongs there.
func add(l *proxy.Listeners, w inside.Listener, f *os.File) error {
	if w.UDP {
		conn, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		l.Names = conn
		return listensAt(conn.LocalAddr(), w)
	}
	listener, err := net.FileListener(f)
	if err != nil {
		return err
	}
	switch {
	case w.Everywhere:
		l.Ports = append(l.Ports, listener)
	case w.Port == inside.NamesPort:
		l.NamesTCP = listener
	case w.Port == inside.HTTPPort:
		l.HTTP = listener
	default:
		l.SOCKS = listener
	}
	return listensAt(listener.Addr(), w)
}

func listensAt(addr net.Addr, w inside.Listener) error {
	at, err := netip.ParseAddrPort(addr.String())
	udp := addr.Network() == "udp"
	if err != nil || udp != w.UDP || at.Port() != w.Port || at.Addr().IsUnspecified() != w.Everywhere {
		return unix.EBADMSG
	}
	return nil
}

// scrubbed is a stream of the program without the secrets of its proxy and without
// those that were injected.
func (c *Cell) scrubbed(w Work, stream *os.File) io.ReadCloser {
	var from io.Reader = stream
	if c.plan.Proxy != nil {
		from = c.plan.Proxy.Scrub(from)
	}
	if w.Spec.Scrub != nil {
		from = w.Spec.Scrub(from)
	}
	return struct {
		io.Reader
		io.Closer
	}{from, stream}
}
