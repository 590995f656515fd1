package localsocket

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"palyra/internal/core/reason"
)

// Loopback identifies the connections of a listener on loopback by the user of the peer process, as
// reported by the kernel at connection time. Only the owner of dir, and the users in also, are
// accepted. If the system cannot identify the user, no connection satisfies AgentOf.
func Loopback(l net.Listener, dir string, also ...int64) (*Listener, error) {
	owner, err := dirOwner(dir)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, also: also, look: loopbackPeer, tcp: true}, nil
}

// neighborOf returns the peer process of an agent's connection. This does not authenticate the
// peer, which must present a token. The kernel does not report the namespaces of another user's
// process.
func (l *Listener) neighborOf(c net.Conn) Peer {
	found, err := l.look(c)
	switch {
	case err != nil:
		return Peer{UID: -1, Refused: reason.Errorf(reason.Unauthenticated, "identifying the process at the other end of the connection: %w", err).
			WithRemedy("Use the socket, as `palyra-hook` does.")}
	case found.uid != l.owner && !slices.Contains(l.also, found.uid):
		return Peer{UID: found.uid, Refused: reason.Errorf(reason.Unauthenticated, "this listener of agents is for uid %d, the owner of palyrad's state directory, not for uid %d", l.owner, found.uid).
			WithRemedy("Run the agent as that user, or list the uid in listen.agent_uids.")}
	case l.shared && found.uid == overflowUID():
		return Peer{UID: found.uid, Refused: reason.Errorf(reason.Unauthenticated, "uid %d represents every user that is not mapped in palyrad's user namespace", found.uid).
			WithRemedy("Run palyrad outside the container.")}
	}
	if found.uid == l.owner {
		l.owned.Store(true)
	}
	return Peer{UID: found.uid}
}

type agentKey struct{}

// AgentContext adds the peer process of an agent's connection to the context of its requests. The
// peer does not become the local operator.
func AgentContext(ctx context.Context, c net.Conn) context.Context {
	if of, ok := c.(*conn); ok {
		return WithAgent(ctx, of.peer)
	}
	return ctx
}

// WithAgent returns the context of an agent process's requests.
func WithAgent(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, agentKey{}, p)
}

// AgentOf returns the process that sent a request to a listener of agents; ok is false for other
// listeners.
func AgentOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(agentKey{}).(Peer)
	return p, ok
}

// Agent identifies the peer of a listener of agents in the journal and for rate limits.
func (p Peer) Agent() string {
	if p.UID < 0 {
		return "agent"
	}
	return "agent uid " + strconv.FormatInt(p.UID, 10)
}

// ends returns both ends of a TCP connection.
func ends(c net.Conn) (server, client *net.TCPAddr, err error) {
	server, ok := c.LocalAddr().(*net.TCPAddr)
	client, also := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !also || !client.IP.IsLoopback() {
		return nil, nil, fmt.Errorf("the connection from %s is not from this host", c.RemoteAddr())
	}
	return server, client, nil
}
