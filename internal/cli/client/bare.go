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
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing"
)

// Bare is one connection to a gateway that shows no credential: all requests go over
// it, and when it is lost they fail.
type Bare struct {
	palyrav1connect.PairingServiceClient
	Seen pairing.Seen
	conn *tls.Conn
}

// Close closes the connection.
func (b *Bare) Close() { _ = b.conn.Close() }

// DialBare connects to a gateway to pair with it. root is the gateway's CA; nil takes
// any server, which the exchange then has to prove.
func (a *App) DialBare(ctx context.Context, address string, root *x509.Certificate, serverName string) (*Bare, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"h2"}} //#nosec G402 -- pairing.Trust and the exchange say whose it is
	if root != nil {
		cfg = ca.ClientTLS(root, serverName, nil)
		cfg.NextProtos = []string{"h2"}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, notReachable(err.Error()).WithRemedy("Check the address: it is that of the gateway's API, as `palyra pairing code` shows it. The gateway has to listen where this machine can reach it (listen.api).")
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, reason.Errorf(reason.NotConnected, "%s does not answer as a gateway does: %w", address, err).
			WithRemedy("Check the address and the port, 7443 if nobody changed it.")
	}
	return bareOver(a, conn, address)
}

// bareOver speaks over one connection that stands.
func bareOver(a *App, conn *tls.Conn, address string) (*Bare, error) {
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
			connect.WithReadMaxBytes(maxMessage), connect.WithInterceptors(deadline{a: a, address: address})),
		Seen: pairing.Seen{Exporter: exporter, Chain: state.PeerCertificates},
		conn: conn,
	}, nil
}
