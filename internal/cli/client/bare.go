package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing"
)

// Bare is a single connection to a gateway without a credential: all requests use it, and fail when
// it is lost.
type Bare struct {
	palyrav1connect.PairingServiceClient
	Seen pairing.Seen
	conn *tls.Conn
}

// Close closes the connection.
func (b *Bare) Close() { _ = b.conn.Close() }

// Bare connects to a gateway for pairing. root is the gateway's CA; with nil any server is
// accepted, and the pairing exchange must authenticate it.
func (d Dialer) Bare(ctx context.Context, address string, root *x509.Certificate, serverName string) (*Bare, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"h2"}} //#nosec G402 -- pairing.Trust and the exchange say whose it is
	if root != nil {
		cfg = ca.ClientTLS(root, serverName, nil)
		cfg.NextProtos = []string{"h2"}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, notReachable(err.Error()).WithRemedy("Check the address of the gateway's API, which `palyra pairing code` prints. The gateway must listen on an address that this machine can reach (listen.api).")
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, reason.Errorf(reason.NotConnected, "%s does not respond like a gateway: %w", address, err).
			WithRemedy("Check the address and the port, 7443 by default.")
	}
	return bareOver(d.out, conn, address)
}

// bareOver returns a Bare on an established connection.
func bareOver(out *printer.Printer, conn *tls.Conn, address string) (*Bare, error) {
	state := conn.ConnectionState()
	exporter, err := pairing.Exporter(&state)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	var taken atomic.Bool
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: &protocols,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if taken.Swap(true) {
				return nil, reason.Errorf(reason.NotConnected, "the connection to the gateway was lost")
			}
			return conn, nil
		},
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Bare{
		PairingServiceClient: palyrav1connect.NewPairingServiceClient(client, "https://"+address,
			connect.WithReadMaxBytes(maxMessage), connect.WithInterceptors(deadline{out: out, address: address})),
		Seen: pairing.Seen{Exporter: exporter, Chain: state.PeerCertificates},
		conn: conn,
	}, nil
}
