//go:build linux

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing"
)

// pairingCost is goal 22: the processor time of both ends of one pairing.
func pairingCost(ctx context.Context, b *bench) ([]*line, error) {
	spent := &line{goal: "22", what: "a pairing, both ends: processor time", unit: "ms", limit: atMost(300)}
	authority, _, err := ca.Open(filepath.Join(b.dir, "pairing-ca"), ca.Options{})
	if err != nil {
		return nil, err
	}
	server, err := authority.ServerTLS(ca.Loopback(), nobodyYet)
	if err != nil {
		return nil, err
	}
	p := &pairer{authority: authority, server: server}
	if p.host, err = pairing.NewHost(pairing.Config{Issuer: p, Approvals: p, Journal: p, Server: p.shown}); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.host.Run(running) }()
	err = b.each(ctx, func() error {
		before, err := processorTime()
		if err != nil {
			return err
		}
		if err := p.pair(ctx); err != nil {
			return err
		}
		after, err := processorTime()
		spent.add(0, float64(after-before)/float64(time.Millisecond))
		return err
	})
	stop()
	if ended := <-done; err == nil {
		err = ended
	}
	return []*line{spent}, err
}

// processorTime returns the processor time of this process so far, including kernel time.
func processorTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// pairer is the gateway of pairings; its people always approve.
type pairer struct {
	authority *ca.Authority
	server    *tls.Config
	host      *pairing.Host
}

// pair performs one pairing.
func (p *pairer) pair(ctx context.Context) error {
	made, err := p.host.Create(ctx, pairing.Request{Kind: pairing.PIN, For: identity.Pairing{Member: access.User("ann"), MadeBy: access.User("ann")}})
	if err != nil {
		return err
	}
	near, far, err := p.connect(ctx)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c, err := pairing.NewCandidate(key)
	if err != nil {
		return err
	}
	if err := p.exchange(ctx, c, made, near, far); err != nil {
		return err
	}
	if near, far, err = p.connect(ctx); err != nil {
		return err
	}
	msg, err := c.Collection(near.Exporter)
	if err != nil {
		return err
	}
	if got, err := p.host.Collect(ctx, far, msg); err != nil || got.Chain == "" {
		return fmt.Errorf("no certificate was returned: %w", err)
	}
	return nil
}

func (p *pairer) exchange(ctx context.Context, c *pairing.Candidate, made pairing.Made, near pairing.Seen, far pairing.Connection) error {
	o, err := p.host.Begin(made.ID)
	if err != nil {
		return err
	}
	if _, err := pairing.Trust(o, near, nil); err != nil {
		return err
	}
	proof, err := c.Prove(made.Secret, "", o, near)
	if err != nil {
		return err
	}
	answer, err := p.host.Prove(far, proof)
	if err != nil {
		return err
	}
	last, err := c.Finish(answer)
	if err != nil {
		return err
	}
	return p.host.Confirm(ctx, far, last)
}

// connect returns both ends of a TLS connection.
func (p *pairer) connect(ctx context.Context) (near pairing.Seen, far pairing.Connection, err error) {
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	server := tls.Server(b, p.server)
	client := tls.Client(a, ca.ClientTLS(p.authority.Root(), "localhost", nil))
	done := make(chan error, 1)
	go func() { done <- server.HandshakeContext(ctx) }()
	if err := client.HandshakeContext(ctx); err != nil {
		return near, far, err
	}
	if err := <-done; err != nil {
		return near, far, err
	}
	seen, other := client.ConnectionState(), server.ConnectionState()
	near.Chain, far.Address = seen.PeerCertificates, "127.0.0.1"
	if near.Exporter, err = pairing.Exporter(&seen); err != nil {
		return near, far, err
	}
	far.Exporter, err = pairing.Exporter(&other)
	return near, far, err
}

func (p *pairer) shown() (pairing.Server, error) {
	cert, err := p.server.GetCertificate(nil)
	if err != nil {
		return pairing.Server{}, err
	}
	key, err := pairing.KeySHA256(cert.Leaf.PublicKey)
	return pairing.Server{CA: p.authority.Root().Raw, Name: "localhost", Key: key}, err
}

// MayPair implements pairing.Issuer.
func (p *pairer) MayPair(identity.Pairing) error { return nil }

// Pair implements pairing.Issuer.
func (p *pairer) Pair(_ context.Context, made identity.Pairing) (identity.Admission, error) {
	cert, err := p.authority.IssueDevice(made.Request, made.DeviceID)
	return identity.Admission{Certificate: cert}, err
}

// PairAgain implements pairing.Issuer.
func (p *pairer) PairAgain(context.Context, string, []byte, time.Duration) (identity.Device, ca.Issued, error) {
	return identity.Device{}, ca.Issued{}, errors.New("no device is collected again")
}

// Ask implements pairing.Approvals.
func (p *pairer) Ask(_ context.Context, _ pairing.Code, asked func(string)) (pairing.Consent, error) {
	asked("an approval")
	return said{}, nil
}

// Record implements pairing.Journal.
func (p *pairer) Record(context.Context, event.Code, string, string, any) error { return nil }

type said struct{}

// By implements pairing.Yes.
func (said) By() []access.Principal { return []access.Principal{access.User("ann")} }

// Use implements pairing.Yes.
func (said) Use(context.Context, ...event.Draft) error { return nil }

// nobodyYet refuses every client certificate; the client has none.
func nobodyYet([]*x509.Certificate) error { return errors.New("nobody has a certificate yet") }
