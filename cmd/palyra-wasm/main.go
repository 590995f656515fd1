//go:build cgo && unix

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"palyra/internal/wasm/wire"
)

func main() {
	// The guest's memory is not the collector's, and what a call allocates here is small.
	debug.SetMemoryLimit(64 << 20)
	if err := work(os.Args[1:]); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "palyra-wasm:", err)
		os.Exit(1)
	}
}

func work(args []string) error {
	if len(args) != 1 || args[0] != "compile" && args[0] != "run" {
		return errors.New("it is started by palyrad, as `palyra-wasm compile` or `palyra-wasm run`")
	}
	l, err := openLine()
	if err != nil {
		return err
	}
	if err := wire.Write(l, wire.Ready, wire.Greeting{Engine: engineName()}); err != nil {
		return err
	}
	if args[0] == "compile" {
		return compile(l)
	}
	return serve(l)
}

// line is the socket to palyrad. It keeps the descriptor that came with the last frame.
type line struct {
	*net.UnixConn
	passed int
}

func openLine() (*line, error) {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("standard input is no socket of palyrad: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("standard input is no socket of palyrad")
	}
	return &line{UnixConn: socket, passed: -1}, nil
}

// Read is net.UnixConn's, and takes a descriptor that comes along.
func (l *line) Read(p []byte) (int, error) {
	var control [64]byte
	n, controls, _, _, err := l.ReadMsgUnix(p, control[:])
	if err != nil {
		return n, err
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

// next reads a frame whose body has at most most bytes.
func (l *line) next(most int) (wire.Frame, error) { return wire.Read(l, most) }
