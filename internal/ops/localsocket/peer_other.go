//go:build unix && !linux && !darwin

package localsocket

import (
	"errors"
	"net"
)

// peerCredentials knows nobody here.
func peerCredentials(net.Conn) (credentials, error) {
	return credentials{}, errors.ErrUnsupported
}
