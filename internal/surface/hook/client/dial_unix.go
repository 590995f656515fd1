//go:build unix

package client

import (
	"io"
	"os"
	"syscall"
)

// dial connects to a Unix socket by system calls: the initialization and the poller of package net
// take as long as the rest of this program. Run bounds the time.
func dial(path string) (io.ReadWriteCloser, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	c := os.NewFile(uintptr(fd), path)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		_ = c.Close()
		return nil, &os.PathError{Op: "connect", Path: path, Err: err}
	}
	return c, nil
}
