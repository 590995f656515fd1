//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/rpc"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// echoServer is the argument that makes this program the peer of the round trip floor.
const echoServer = "echo-server"

// echo answers each user message of a run with its text.
type echo struct {
	palyrav1connect.UnimplementedGatewayServiceHandler
}

// RunStream returns each message.
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

// serveEcho serves with the gateway's own TLS until stdin ends, and also with plain TLS 1.3 and a
// certificate of the same kind. It writes a credential to the directory and prints both addresses.
func serveEcho(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New(echoServer + " needs a directory")
	}
	authority, _, err := ca.Open(filepath.Join(args[0], "ca"), ca.Options{})
	if err != nil {
		return err
	}
	mutual, err := authority.ServerTLS(ca.Loopback(), func(chain []*x509.Certificate) error {
		_, err := authority.VerifyDevice(chain)
		return err
	})
	if err != nil {
		return err
	}
	cert, err := authority.IssueServer(ca.Loopback())
	if err != nil {
		return err
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := admit(authority, filepath.Join(args[0], "client"), l.Addr().String()); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewGatewayServiceHandler(echo{}))
	server := &http.Server{Handler: mux, TLSConfig: mutual, ReadHeaderTimeout: 10 * time.Second}
	plain := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert}},
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_, _ = server.Close(), plain.Close()
	}()
	go func() { _ = plain.ServeTLS(p, "", "") }()
	fmt.Fprintln(stdout, l.Addr(), p.Addr())
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// admit creates a client of the echo server.
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

// otherEnd is an echo server in a separate process.
type otherEnd struct {
	cmd   *exec.Cmd
	stdin io.Closer
	// bundle is a credential for the mutual TLS, and plain the address of the plain TLS.
	bundle        identity.Bundle
	mutual, plain string
}

// roundTrip is an open stream to an echo server.
type roundTrip struct {
	*otherEnd
	stream *rpc.BidiStream[*palyrav1.RunStreamRequest, *palyrav1.RunStreamResponse]
}

func (b *bench) newOtherEnd() (_ *otherEnd, err error) {
	dir, err := b.path("echo")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &otherEnd{cmd: exec.Command(self, echoServer, dir)}
	o.cmd.Stderr = b.log
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	if _, err := fmt.Fscanln(bufio.NewReader(stdout), &o.mutual, &o.plain); err != nil {
		return nil, fmt.Errorf("the echo server did not start: %w", err)
	}
	o.bundle, err = identity.ReadBundle(filepath.Join(dir, "client"))
	return o, err
}

func (o *otherEnd) close() error {
	_ = o.stdin.Close()
	return o.cmd.Wait()
}

func (b *bench) newRoundTrip(ctx context.Context) (*roundTrip, error) {
	o, err := b.newOtherEnd()
	if err != nil {
		return nil, err
	}
	r := &roundTrip{otherEnd: o}
	if r.stream, err = newClient(o.bundle, o.mutual).gateway.RunStream(ctx); err != nil {
		return nil, errors.Join(err, o.close())
	}
	return r, nil
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
	return r.otherEnd.close()
}

func userMessage(text string) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_UserMessage{UserMessage: &palyrav1.UserMessage{Text: text}}}
}
