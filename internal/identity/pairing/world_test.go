package pairing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/ca/catest"
)

// gateway is a host with a CA, and with fakes of identity, approvals and journal.
type gateway struct {
	*Host
	t    *testing.T
	ca   *catest.Authority
	leaf tls.Certificate

	mu      sync.Mutex
	asked   []Code
	answers chan answered
	used    int
	paired  []identity.Pairing
	again   []string
	events  []event.Code
	// full makes the journal refuse events.
	full bool
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, ca: catest.Lasting(t)}
	g.leaf = g.ca.Issue(t, &x509.Certificate{DNSNames: []string{"localhost"}})
	g.restart()
	return g
}

// restart replaces the host, as a new process would.
func (g *gateway) restart() {
	key := must.Get(KeySHA256(g.leaf.Leaf.PublicKey))(g.t)
	g.Host = must.Get(NewHost(Config{Issuer: g, Approvals: g, Journal: g, Server: func() (Server, error) {
		return Server{CA: g.ca.Cert.Raw, Name: "localhost", Key: key}, nil
	}}))(g.t)
	g.answers = make(chan answered, 1)
	must.Run(g.t, g.Host.Run)
}

func (g *gateway) MayPair(p identity.Pairing) error {
	if p.Member.Name == "nobody" {
		return reason.Errorf(reason.NotFound, "member %s not found", p.Member)
	}
	return nil
}

func (g *gateway) Pair(_ context.Context, p identity.Pairing) (identity.Admission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paired = append(g.paired, p)
	return identity.Admission{Certificate: ca.Issued{PEM: []byte("certificate of " + p.DeviceID)}}, nil
}

func (g *gateway) PairAgain(_ context.Context, key string, request []byte, within time.Duration) (identity.Device, ca.Issued, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.paired {
		if slices.Equal(p.Request, request) && within == collectWithin {
			g.again = append(g.again, key)
			return identity.Device{ID: p.DeviceID, Principal: p.Member}, ca.Issued{PEM: []byte("certificate of " + p.DeviceID + " again")}, nil
		}
	}
	return identity.Device{}, ca.Issued{}, reason.Errorf(reason.NotFound, "no pairing")
}

// answered is the result of an approval.
type answered struct {
	g  *gateway
	by []access.Principal
	no error
}

func (a answered) By() []access.Principal { return a.by }

func (a answered) Use(context.Context, ...event.Draft) error {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	a.g.used++
	return nil
}

func (g *gateway) Ask(ctx context.Context, c Code, stands func(string)) (Consent, error) {
	g.mu.Lock()
	g.asked = append(g.asked, c)
	answers := g.answers
	g.mu.Unlock()
	stands("APPROVAL")
	select {
	case a := <-answers:
		return a, a.no
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gateway) Record(_ context.Context, code event.Code, _, _ string, _ any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full {
		return reason.Errorf(reason.JournalUnavailable, "full")
	}
	g.events = append(g.events, code)
	return nil
}

func (g *gateway) allow(by ...string) {
	a := answered{g: g}
	for _, name := range by {
		a.by = append(a.by, access.User(name))
	}
	g.answers <- a
}

// code creates a code for another device of ann.
func (g *gateway) code(kind Kind) Made {
	g.t.Helper()
	return must.Get(g.Create(g.t.Context(), Request{Kind: kind, For: identity.Pairing{Member: access.User("ann"), MadeBy: access.User("ann")}}))(g.t)
}

// wire is one TLS connection with the views of both ends.
type wire struct {
	server Connection
	client Seen
}

// connect makes a TLS connection to a server with the given certificate.
func connect(t *testing.T, leaf tls.Certificate) wire {
	t.Helper()
	near, far := net.Pipe()
	defer func() { must.Check(t, near.Close()); must.Check(t, far.Close()) }()
	server := tls.Server(far, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{leaf}, SessionTicketsDisabled: true})
	client := tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}) // #nosec G402 -- the exchange proves who answers
	done := make(chan error, 1)
	go func() { done <- server.HandshakeContext(t.Context()) }()
	must.Do(t, client.HandshakeContext(t.Context()))
	must.Do(t, <-done)
	sc, cc := server.ConnectionState(), client.ConnectionState()
	return wire{
		server: Connection{Exporter: must.Get(Exporter(&sc))(t), Address: "192.0.2.7"},
		client: Seen{Exporter: must.Get(Exporter(&cc))(t), Chain: cc.PeerCertificates},
	}
}

func newCandidate(t *testing.T) *Candidate {
	t.Helper()
	return must.Get(NewCandidate(catest.Key(t)))(t)
}

// exchange runs an exchange to its end. It returns the error of the side that detects the
// failure.
func exchange(g *gateway, c *Candidate, w wire, code, secret string) error {
	o, err := g.Begin(code)
	if err != nil {
		return err
	}
	if _, err := Trust(o, w.client, nil); err != nil {
		return err
	}
	p, err := c.Prove(secret, "laptop", o, w.client)
	if err != nil {
		return err
	}
	a, err := g.Prove(w.server, p)
	if err != nil {
		return err
	}
	confirmation, err := c.Finish(a)
	if err != nil {
		return err
	}
	return g.Confirm(g.t.Context(), w.server, confirmation)
}

func collect(g *gateway, c *Candidate, w wire) (Collected, error) {
	g.t.Helper()
	msg := must.Get(c.Collection(w.client.Exporter))(g.t)
	return g.Collect(g.t.Context(), w.server, msg)
}

func wrong(pin string) string {
	b := []byte(pin)
	b[0] = '0' + (b[0]-'0'+1)%10
	return string(b)
}

func fingerprint(t *testing.T, c *Candidate) string {
	t.Helper()
	return "sha256:" + hex.EncodeToString(c.deviceKey)
}
