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
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox/inside"
)

// Resolver is the content of resolv.conf(5) inside. The name server is the proxy, if the
// program has one. Resolver keeps the default timeout of 5 s, because on a busy machine an
// answer may take longer than a second.
const Resolver = "nameserver 127.0.0.1\n"

// Open gives the program of a plan access to the hosts of g. Without hosts the program is offline,
// and its name service refuses and records every name. The plan must have a network namespace in which
// palyra-init has the capability to listen, and with hosts the one to add routes. If the proxy
// inspects hosts, it has a certificate authority: the backend then puts Proxy.Bundle into a file
// at Plan.Bundle.
func (m *Machine) Open(p *Plan, g egress.Reach, out proxy.Outward) error {
	carrier, err := proxy.New(g, out)
	if err != nil {
		return err
	}
	p.Proxy, p.Spec.Inner.Network = carrier, &inside.Network{Outside: m.host.own["net"], Ports: carrier.Ports(), Offline: carrier.Offline()}
	return nil
}

// admit receives the listeners and serves the proxy on them.
func (c *Cell) admit(ctx context.Context) error {
	report, fds, err := receive(c.control, inside.MaxListeners)
	if err != nil {
		return err
	}
	l, ports, err := listeners(*c.plan.Spec.Inner.Network, fds)
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "the listeners of the sandbox cannot be used: %w", err)
	}
	c.evidence.captured, c.evidence.ports = report.Captured, ports
	c.session.start(ctx, l)
	return nil
}

// proxySession serves the proxy of a program. Without a proxy it does nothing.
type proxySession struct {
	proxy *proxy.Proxy
	// stop ends the session; it is nil without a session. served receives the result of the
	// session.
	stop   context.CancelCauseFunc
	served chan error
}

// start serves the proxy on the listeners until end is called. The proxy outlives the context of
// the call, so that the report contains the last connections of a stopped program.
func (s *proxySession) start(ctx context.Context, l proxy.Listeners) {
	ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		err := s.proxy.Serve(ctx, l)
		if ctx.Err() == nil {
			// The cause may contain details that callers must not see.
			err = errors.Join(reason.Errorf(reason.SandboxUnavailable, "the connection to the allowed hosts failed, and the program was stopped").
				WithRemedy("Try again; if it fails again, check palyrad's log and report the error."), err)
		}
		s.served <- err
	}()
}

// end stops the proxy of a program that has ended, and closes the remaining connections. If
// cause is proxy.ErrEnded, bytes that the program has already sent are still delivered, for at
// most a second.
func (s *proxySession) end(cause error) error {
	if s.stop == nil {
		return nil
	}
	s.cancel(cause)
	return <-s.served
}

// cancel is like end for a session whose result was already received.
func (s *proxySession) cancel(cause error) {
	s.stop(cause)
	s.stop = nil
}

// connections returns the connection attempts of the program so far.
func (s *proxySession) connections() (list []tool.Connection, missed int) {
	if s.proxy == nil {
		return nil, 0
	}
	return s.proxy.Connections()
}

// listeners converts descriptors into listeners for a proxy, and takes ownership of them. ports
// are the ports at which all connections arrive.
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

// add verifies a socket and assigns it to its listener.
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

// scrubbed removes the secrets of the proxy and the injected secrets from a stream of the
// program.
func (s *proxySession) scrubbed(w Work, stream *os.File) io.ReadCloser {
	var from io.Reader = stream
	if s.proxy != nil {
		from = s.proxy.Scrub(from)
	}
	if w.Spec.Scrub != nil {
		from = w.Spec.Scrub(from)
	}
	return struct {
		io.Reader
		io.Closer
	}{from, stream}
}
