//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"palyra/internal/identity"
)

// handshakes is goal 23: a mutually authenticated connection to palyrad, including the lookup
// of the device. The floor is TLS 1.3 to a plain Go server that has a certificate of the same
// kind and requires none. A second line has the same mutual TLS without the lookup of the
// device.
func handshakes(ctx context.Context, b *bench) (_ []*line, err error) {
	plain := &line{goal: "23", what: "mutual TLS handshake", floorName: "plain TLS 1.3", unit: "us"}
	mutual := &line{goal: "23", what: "mutual TLS handshake", floorName: "mutual TLS 1.3", unit: "us"}
	other, err := b.newOtherEnd()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, other.close()) }()
	g, _, err := b.running("", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	own, err := identity.ReadBundle(g.bundle())
	if err != nil {
		return nil, err
	}
	nameless := other.bundle.ClientTLS()
	nameless.GetClientCertificate, nameless.Certificates = nil, nil
	to := func(address string, c *tls.Config) func() error {
		c = c.Clone()
		c.NextProtos = []string{"h2"}
		return func() error { return handshake(ctx, address, c) }
	}
	return []*line{plain, mutual}, b.each(ctx, func() error {
		took, err := inTurns(b.size.connections, 0, to(other.plain, nameless), to(other.mutual, other.bundle.ClientTLS()), to(own.Address, own.ClientTLS()))
		if err != nil {
			return err
		}
		plain.add(took[0], took[2])
		mutual.add(took[1], took[2])
		return nil
	})
}

// handshake connects and waits for the first byte of HTTP/2, which the server sends after it has
// accepted the client's certificate. The client's handshake returns earlier.
func handshake(ctx context.Context, address string, c *tls.Config) (err error) {
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: c}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("shaking hands with %s: %w", address, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("after the handshake with %s: %w", address, err)
	}
	return nil
}
