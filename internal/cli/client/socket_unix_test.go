//go:build unix

package client

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
)

// TestAddressThatDoesNotAnswer: if palyrad's address does not respond, the operator of this
// machine reaches it over its socket, with one notice. A configured address is not replaced,
// and without a socket the error is about the address.
func TestAddressThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "socket"))(t) // t.TempDir is too long for a socket
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener := must.Get(net.Listen("unix", socket))(t)
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewStatusServiceHandler(palyrav1connect.UnimplementedStatusServiceHandler{}))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: &protocols}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	left := filepath.Join(dir, "left")
	dead := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"}))(t)
	dead.SetUnlinkOnClose(false)
	must.Do(t, dead.Close())
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := closed.Addr().String()
	must.Do(t, closed.Close())
	for name, c := range map[string]struct {
		socket string
		want   connect.Code
		says   int
	}{
		"with the socket":                  {socket, connect.CodeUnimplemented, 1},
		"with a socket that is gone":       {socket + ".gone", connect.CodeUnavailable, 0},
		"with a socket without a listener": {left, connect.CodeUnavailable, 0},
		"without a socket":                 {"", connect.CodeUnavailable, 0},
	} {
		var said bytes.Buffer
		way := &current{out: printer.New(printer.Streams{Err: &said}), dir: dir, address: address, local: true, socket: c.socket, transport: transport(&tls.Config{MinVersion: tls.VersionTLS13})}
		status := palyrav1connect.NewStatusServiceClient(noRedirects(way), "https://"+address)
		for range 2 {
			if _, err := status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}); connect.CodeOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := strings.Count(said.String(), "using the gateway's socket: "+address+" does not answer"); n != c.says {
			t.Errorf("%s: it says %q", name, said.String())
		}
	}
}
