//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// echoServer is the argument that makes this program the other end of the
// round trip floor.
const echoServer = "echo-server"

// echo answers each user message of a run with its text, and does nothing
// else.
type echo struct {
	palyrav1connect.UnimplementedGatewayServiceHandler
}

// RunStream sends back what it is sent.
func (echo) RunStream(_ context.Context, stream *connect.BidiStream[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]) error {
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&palyrav1.RunStreamResponse{Event: &palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelDelta{
			ModelDelta: &palyrav1.ModelDelta{Text: m.GetUserMessage().GetText()},
		}}}); err != nil {
			return err
		}
	}
}

// serveEcho serves with the gateway's own TLS until stdin ends. It leaves a
// credential in the directory and prints its address.
func serveEcho(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New(echoServer + " needs a directory")
	}
	authority, _, err := ca.Open(filepath.Join(args[0], "ca"), ca.Options{})
	if err != nil {
		return err
	}
	tls, err := authority.ServerTLS(ca.Loopback(), func(chain []*x509.Certificate) error {
		_, err := authority.VerifyDevice(chain)
		return err
	})
	if err != nil {
		return err
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := admit(authority, filepath.Join(args[0], "client"), l.Addr().String()); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewGatewayServiceHandler(echo{}))
	server := &http.Server{Handler: mux, TLSConfig: tls, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = server.Close()
	}()
	fmt.Fprintln(stdout, l.Addr())
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// admit makes a client of the echo server.
func admit(authority *ca.Authority, dir, address string) error {
	key, err := identity.BundleKey(dir)
	if err != nil {
		return err
	}
	csr, err := identity.Request(key)
	if err != nil {
		return err
	}
	issued, err := authority.IssueDevice(csr, ulid.Make().String())
	if err != nil {
		return err
	}
	return identity.WriteBundle(dir, identity.Bundle{
		Root: authority.Root(), Chain: issued.Chain, Key: key, Address: address, ServerName: "localhost",
	})
}

// roundTrip is an open stream to an echo server in a process of its own.
type roundTrip struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stream *connect.BidiStreamForClientSimple[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]
}

func (b *bench) newRoundTrip(ctx context.Context) (_ *roundTrip, err error) {
	dir, err := b.path("echo")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &roundTrip{cmd: exec.Command(self, echoServer, dir)}
	r.cmd.Stderr = b.log
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the echo server did not start: %w", err)
	}
	bundle, err := identity.ReadBundle(filepath.Join(dir, "client"))
	if err != nil {
		return nil, err
	}
	r.stream, err = newClient(bundle, strings.TrimSpace(address)).gateway.RunStream(ctx)
	return r, err
}

// once sends one message and waits for its echo.
func (r *roundTrip) once() error {
	if err := r.stream.Send(userMessage("go")); err != nil {
		return err
	}
	_, err := r.stream.Receive()
	return err
}

func (r *roundTrip) close() error {
	if r.stream != nil {
		_ = r.stream.CloseRequest()
		_ = r.stream.CloseResponse()
	}
	_ = r.stdin.Close()
	return r.cmd.Wait()
}

func userMessage(text string) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_UserMessage{UserMessage: &palyrav1.UserMessage{Text: text}}}
}
