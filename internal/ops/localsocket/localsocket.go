// Package localsocket is the Unix socket by which a user on palyrad's own host connects without
// a certificate. The kernel identifies the peer process, and only the owner of palyrad's state
// directory is accepted.
package localsocket

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"palyra/internal/core/reason"
)

// Peer is the other end of a connection.
type Peer struct {
	// UID is the peer's uid, in the user namespace of this process; -1 if the system did not report
	// it.
	UID int64
	// Socket is true for a peer on a Unix socket.
	Socket bool
	// Near is true for a process that is visible in palyrad's own pid namespace, and that has no
	// uid other than UID. Such a process is not in a container or sandbox.
	Near bool
	// Refused is why the peer is refused; nil for the owner of the socket's directory.
	Refused error
}

// String identifies the peer in the journal and for rate limits.
func (p Peer) String() string {
	if p.UID < 0 {
		return "socket"
	}
	return fmt.Sprintf("socket uid %d", p.UID)
}

// Root reports whether the peer is a process of root in palyrad's own pid namespace. It may
// also be Refused: root is not the local operator.
func (p Peer) Root() bool { return p.Near && p.UID == 0 }

// conn is a connection with a known peer.
type conn struct {
	net.Conn
	peer Peer
}

// Listener accepts connections and identifies their peers.
type Listener struct {
	net.Listener
	owner int64
	// tcp is true for a listener on loopback, and shared for a socket of several users: both also
	// accept the users in also.
	tcp, shared bool
	also        []int64
	// owned is true once the owner has connected.
	owned atomic.Bool
	// look returns a connection's peer from the system; tests replace it.
	look func(net.Conn) (credentials, error)
}

// credentials are the kernel's data about a peer.
type credentials struct {
	uid int64
	// pid is the peer's process, 0 if it is not visible here because it runs in another pid
	// namespace.
	pid int
	// foreign is true for a process in another, or an unknown, user namespace. Its uid may be a
	// mapping that any user can create there.
	foreign bool
	// near is true for a process that is visible in the pid namespace of this process, and that
	// runs as uid. It is also set for processes whose namespaces this process may not read.
	near bool
}

// Accept implements net.Listener. A refused peer is accepted as well, so that it receives the
// reason.
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

// OwnerConnected reports whether a process of the owner has been accepted since the listener was
// created.
func (l *Listener) OwnerConnected() bool { return l != nil && l.owned.Load() }

func (l *Listener) peerOf(c net.Conn) Peer {
	found, err := l.look(c)
	switch {
	case err != nil:
		return Peer{UID: -1, Socket: true, Refused: reason.Errorf(reason.Unauthenticated, "the system does not identify the process at the other end of the socket")}
	case found.uid != l.owner:
		return Peer{UID: found.uid, Socket: true, Near: found.near, Refused: reason.Errorf(reason.Unauthenticated, "the socket is for uid %d, the owner of palyrad's state directory, not for uid %d", l.owner, found.uid).
			WithRemedy("Run the command as that user, or create a credential bundle: `palyrad operator add NAME --role ROLE` on the gateway's host.")}
	case found.pid == 0 || found.foreign:
		return Peer{UID: found.uid, Socket: true, Refused: reason.Errorf(reason.Unauthenticated, "the process at the other end of the socket is not in palyrad's pid and user namespace").
			WithRemedy("Run the command outside the container, or create a credential bundle for it: `palyrad operator add NAME --role ROLE`.")}
	}
	l.owned.Store(true)
	return Peer{UID: found.uid, Socket: true, Near: found.near}
}

type peerKey struct{}

// ConnContext adds the peer of a Listener's connection to the context of its requests. Connections
// of other listeners have none.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if of, ok := c.(*conn); ok {
		return WithPeer(ctx, of.peer)
	}
	return ctx
}

// WithPeer returns the context of a peer's requests.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerOf returns the peer of the socket that a request came over; ok is false for other
// connections.
func PeerOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(peerKey{}).(Peer)
	return p, ok
}
