package proxy

import (
	"io"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/web"
)

// Limits of the answer to a denied program: the time until its first data and until it has closed
// the connection, and the data that it may still send.
const (
	declineTime = 2 * time.Second
	declineData = 64 << 10
)

// accessDenied is the fatal TLS alert access_denied (RFC 8446, section 6.2) in a record of the
// version that every client accepts before a version is agreed. Clients print its name.
var accessDenied = []byte{21, 3, 1, 0, 2, 2, 49}

// decline ends a transparent connection that failed. On the ports of the web a denied program
// receives an answer in its protocol that names the policy, so that it reports neither a broken
// network nor a reset: an HTTP response, or a TLS alert. Nothing that the program sends is used.
// Loopback has no answer, because a program expects its own services there.
func (v *service) decline(c *caller, t egress.Target, err error) {
	defer reset(c.Conn)
	if reason.Of(err) != reason.EgressDenied || t.Port != portHTTP && t.Port != portTLS {
		return
	}
	if addr, _ := t.Host.Addr(); addr.IsLoopback() {
		return
	}
	if c.patience(declineTime) != nil || len(c.early) == 0 && c.more(c.Conn.Read) != nil {
		return
	}
	var answer []byte
	switch first := c.early[0]; {
	case first == recordHandshake:
		answer = accessDenied
	case first >= 'A' && first <= 'Z':
		answer = web.RefusalOf(err)
	default:
		return
	}
	if _, failed := c.Write(answer); failed != nil || c.CloseWrite() != nil {
		return
	}
	// Data that is not read would reset the connection before the program has read the answer.
	_, _ = io.CopyN(io.Discard, c.Conn, declineData)
}
