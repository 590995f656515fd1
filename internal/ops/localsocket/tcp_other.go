//go:build !linux

package localsocket

import (
	"errors"
	"net"
)

// loopbackPeer knows nobody here: no system but Linux says whose a connection over TCP
// is to somebody who is not root.
func loopbackPeer(net.Conn) (credentials, error) {
	return credentials{}, errors.ErrUnsupported
}
