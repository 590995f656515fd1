//go:build !unix

package client

import (
	"io"
	"net"
)

// dial connects to a Unix socket.
func dial(path string) (io.ReadWriteCloser, error) { return net.DialTimeout("unix", path, margin) }
