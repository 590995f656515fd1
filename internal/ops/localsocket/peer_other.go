//go:build unix && !linux && !darwin

package localsocket

import (
	"errors"
	"net"
)

// peerCredentials is not supported on this system.
func peerCredentials(net.Conn) (credentials, error) {
	return credentials{}, errors.ErrUnsupported
}
