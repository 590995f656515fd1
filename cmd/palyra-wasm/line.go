//go:build cgo && unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/wasm/wire"
)

// line is the socket to palyrad. It uses blocking system calls. The process waits for only one
// event at a time, and waiting in the Go runtime would use other threads, which cost more time
// than most guests.
type line struct {
	fd int
	in *bufio.Reader
	// passed is the descriptor received with the last frame, -1 for none.
	passed int
}

// openLine returns standard input as the line.
func openLine() (*line, error) {
	fd := int(os.Stdin.Fd())
	name, err := unix.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("standard input is not a socket of palyrad: %w", err)
	}
	if _, ok := name.(*unix.SockaddrUnix); !ok {
		return nil, errors.New("standard input is not a socket of palyrad")
	}
	l := &line{fd: fd, passed: -1}
	l.in = bufio.NewReader(l)
	return l, nil
}

// Read reads available bytes and an accompanying descriptor.
func (l *line) Read(p []byte) (int, error) {
	var control [64]byte
	n, controls, err := retry(func() (int, int, error) {
		n, controls, _, _, err := unix.Recvmsg(l.fd, p, control[:], 0)
		return n, controls, err
	})
	if err != nil {
		return 0, fmt.Errorf("reading from palyrad: %w", err)
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	if controls > 0 {
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil {
			return n, err
		}
		for _, m := range messages {
			if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
				l.passed = fds[0]
			}
		}
	}
	return n, nil
}

// Write waits until all bytes are written.
func (l *line) Write(p []byte) (written int, err error) {
	for written < len(p) {
		n, _, err := retry(func() (int, int, error) {
			n, err := unix.Write(l.fd, p[written:])
			return n, 0, err
		})
		if err != nil {
			return written, fmt.Errorf("writing to palyrad: %w", err)
		}
		written += n
	}
	return written, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, int, error)) (int, int, error) {
	for {
		a, b, err := call()
		if !errors.Is(err, unix.EINTR) {
			return a, b, err
		}
	}
}

// next reads a frame whose body has at most most bytes.
func (l *line) next(most int) (wire.Frame, error) { return wire.Read(l.in, most) }
