// Package localsocket is the Unix socket by which a person on palyrad's own host
// reaches it without a certificate: the kernel says whose process is at the other
// end, and only the owner of palyrad's state directory is let in.
package localsocket

import (
	"context"
	"fmt"
	"net"

	"palyra/internal/core/reason"
)

// Peer is who is at the other end of a connection.
type Peer struct {
	// UID is the peer's, in the user namespace of this process; -1 when the system
	// did not say.
	UID int64
	// Socket is true for a peer that came over a Unix socket.
	Socket bool
	// Refused says why the peer is not let in; nil for the owner of the socket's
	// directory.
	Refused error
}

// String names the peer in the journal and for rate limits.
func (p Peer) String() string {
	if p.UID < 0 {
		return "socket"
	}
	return fmt.Sprintf("socket uid %d", p.UID)
}

// conn is a connection whose peer is known.
type conn struct {
	net.Conn
	peer Peer
}

// Listener accepts connections and finds out whose they are.
type Listener struct {
	net.Listener
	owner int64
	// tcp is true for a listener on loopback, and shared for a socket of several users: both
	// let the users in also in, too.
	tcp, shared bool
	also        []int64
	// look asks the system for a connection's peer; tests set it.
	look func(net.Conn) (credentials, error)
}

// credentials are what the kernel says of a peer.
type credentials struct {
	uid int64
	// pid is the peer's process, 0 when this process cannot see it: it runs in
	// another pid namespace.
	pid int
	// foreign is true for a process in another user namespace, and for one of which
	// that cannot be said. Its uid may be one that anybody gave themselves there.
	foreign bool
}

// Accept implements net.Listener. A peer that is not let in is accepted as well, so
// that it can be told why.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.tcp || l.shared {
		return &conn{c, l.neighborOf(c)}, nil
	}
	return &conn{c, l.peerOf(c)}, nil
}

func (l *Listener) peerOf(c net.Conn) Peer {
	found, err := l.look(c)
	switch {
	case err != nil:
		return Peer{UID: -1, Socket: true, Refused: reason.Errorf(reason.Unauthenticated, "the system does not say whose process is at the other end of the socket")}
	case found.uid != l.owner:
		return Peer{UID: found.uid, Socket: true, Refused: reason.Errorf(reason.Unauthenticated, "the socket is for uid %d, to which palyrad's state directory belongs, and not for uid %d", l.owner, found.uid).
			WithRemedy("Run the command as that user, or get a credential bundle of your own: `palyrad operator add NAME --role ROLE` on the gateway's host.")}
	case found.pid == 0 || found.foreign:
		return Peer{UID: found.uid, Socket: true, Refused: reason.Errorf(reason.Unauthenticated, "palyrad does not see that the process at the other end of the socket is in its own pid and user namespace").
			WithRemedy("Run the command outside the container, or get a credential bundle for it: `palyrad operator add NAME --role ROLE`.")}
	}
	return Peer{UID: found.uid, Socket: true}
}

type peerKey struct{}

// ConnContext puts the peer of a connection of a Listener into the context of its
// requests. Connections of other listeners have none.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if of, ok := c.(*conn); ok {
		return WithPeer(ctx, of.peer)
	}
	return ctx
}

// WithPeer is ctx for requests of a peer.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf returns who is at the other end of the socket that a request came over; ok
// is false for one that came over no socket.
func PeerOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(peerKey{}).(Peer)
	return p, ok
}
