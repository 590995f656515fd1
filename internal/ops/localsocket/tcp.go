package localsocket

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"palyra/internal/core/reason"
)

// Loopback makes the connections of a listener on loopback known by the user whose
// process is at the other end, as the kernel says it at the time of each connection.
// Only the owner of dir, and the users in also, are let in. Where the system does not
// say whose a connection is, none is let in for what asks for the user (AgentOf).
func Loopback(l net.Listener, dir string, also ...int64) (*Listener, error) {
	owner, err := dirOwner(dir)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, owner: owner, also: also, look: loopbackPeer, tcp: true}, nil
}

// neighborOf is whose process is at the other end of a connection of an agent. Being let in
// makes it nobody yet: it shows a token. In which namespaces a process of another user is,
// the kernel does not tell this one.
func (l *Listener) neighborOf(c net.Conn) Peer {
	found, err := l.look(c)
	switch {
	case err != nil:
		return Peer{UID: -1, Refused: reason.Errorf(reason.Unauthenticated, "the system does not say whose process is at the other end of the connection: %w", err).
			WithRemedy("Use the socket: `palyra-hook` does.")}
	case found.uid != l.owner && !slices.Contains(l.also, found.uid):
		return Peer{UID: found.uid, Refused: reason.Errorf(reason.Unauthenticated, "this way of agents is for uid %d, to which palyrad's state directory belongs, and not for uid %d", l.owner, found.uid).
			WithRemedy("Run the agent as that user, or list the uid in listen.agent_uids.")}
	case l.shared && found.uid == overflowUID():
		return Peer{UID: found.uid, Refused: reason.Errorf(reason.Unauthenticated, "uid %d stands for every user that palyrad's user namespace does not know", found.uid).
			WithRemedy("Run palyrad outside the container.")}
	}
	return Peer{UID: found.uid}
}

type agentKey struct{}

// AgentContext puts whose process is at the other end of a connection of an agent into
// the context of its requests. It makes nobody the local operator.
func AgentContext(ctx context.Context, c net.Conn) context.Context {
	if of, ok := c.(*conn); ok {
		return WithAgent(ctx, of.peer)
	}
	return ctx
}

// WithAgent is ctx for requests of an agent's process.
func WithAgent(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, agentKey{}, p)
}

// AgentOf returns whose process sent a request to a listener of agents; ok is false for
// a request that came by another listener.
func AgentOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(agentKey{}).(Peer)
	return p, ok
}

// Agent names the peer of a listener of agents in the journal and for rate limits.
func (p Peer) Agent() string {
	if p.UID < 0 {
		return "agent"
	}
	return "agent uid " + strconv.FormatInt(p.UID, 10)
}

// ends are both ends of a connection over TCP.
func ends(c net.Conn) (server, client *net.TCPAddr, err error) {
	server, ok := c.LocalAddr().(*net.TCPAddr)
	client, also := c.RemoteAddr().(*net.TCPAddr)
	if !ok || !also || !client.IP.IsLoopback() {
		return nil, nil, fmt.Errorf("the connection from %s is not of this host", c.RemoteAddr())
	}
	return server, client, nil
}
