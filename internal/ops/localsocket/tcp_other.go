//go:build !linux

package localsocket

import (
	"errors"
	"net"
)

// loopbackPeer is not supported: only Linux reports the owner of a TCP connection to unprivileged
// processes.
func loopbackPeer(net.Conn) (credentials, error) {
	return credentials{}, errors.ErrUnsupported
}
