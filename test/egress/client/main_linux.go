// Command client is the Go client that the egress tests run inside a sandbox. It prints one line
// for each attempt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// patience is the timeout of every wait. It is far above every real duration.
const patience = 2 * time.Minute

func main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	args := os.Args[2:]
	var err error
	switch os.Args[1] {
	case "fetch":
		err = fetchAll(args)
	case "try":
		err = tryAll(args)
	case "load":
		err = load(args)
	case "listen":
		err = listen(args)
	default:
		err = errors.New("no such command")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// outcome returns one word for an error: how the peer refused.
func outcome(err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EAFNOSUPPORT):
		return "not permitted"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
