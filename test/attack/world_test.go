//go:build linux

package attack

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress/egresstest"
	"palyra/internal/egress/proxy"
	"palyra/internal/identity/ca/catest"
)

// world is the internet of these tests: a name server, and servers at fictitious addresses. No
// packet to them leaves the machine, because the gateway's dial function maps these addresses
// to the real ones.
type world struct {
	names *egresstest.NameServer
	// careless is a proxy that checks nothing, for use in controls.
	careless *careless

	authority *catest.Authority

	mu    sync.Mutex
	sites map[string]*site
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{sites: map[string]*site{}}
	w.authority = catest.New(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	w.names = egresstest.NewNameServer(t, w.answer)
	w.careless = must.Get(newVulnerableServer(w))(t)
	t.Cleanup(func() { must.Check(t, w.careless.close()) })
	return w
}

// outward returns the world as the gateway accesses it.
func (w *world) outward() proxy.Outward {
	roots := x509.NewCertPool()
	roots.AddCert(w.authority.Cert)
	return proxy.Outward{Resolver: w.names.Resolver(), Interfaces: w.interfaces, Dial: w.dial, Roots: roots}
}

// certificate returns a certificate for a name (or no name) and the server's real address. A
// stranger's certificate is self-signed.
func (w *world) certificate(name string, at net.Addr, stranger bool) (*tls.Certificate, error) {
	where, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: canary}, DNSNames: []string{name}, IPAddresses: []net.IP{where.Addr().AsSlice()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	parent := w.authority.Cert
	if stranger {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, w.authority.Key.Public(), w.authority.Key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: w.authority.Key}, err
}

// interfaces returns the addresses that the gateway treats as the machine's own.
func (w *world) interfaces() ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, s := range w.sites {
		list = append(list, s.address(own))
	}
	return list, nil
}

// dial connects the gateway to a server of a site.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	where, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	to, err := w.route(where)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, to)
}

// route returns the real address of a server.
func (w *world) route(where netip.AddrPort) (string, error) {
	if where == netip.MustParseAddrPort(otherResolver) {
		return w.names.Address(), nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sites {
		if to, ok := s.route(where); ok {
			return to, nil
		}
	}
	return "", fmt.Errorf("nothing is at %s", where)
}

// otherResolver is a public resolver whose address a program may have built in.
const otherResolver = "8.8.8.8:53"

// lookup returns the addresses of a name: the records of one site.
func (w *world) lookup(name string, kind uint16) []netip.Addr {
	if name == "localhost" && kind == typeA {
		return addresses("127.0.0.1")
	}
	label, s := w.zone(name)
	if s == nil {
		return nil
	}
	return s.answer(label, kind)
}

// zone splits a name into the label before a site's zone, and the site.
func (w *world) zone(name string) (label string, _ *site) {
	rest, ok := strings.CutSuffix(strings.ToLower(name), ".test")
	if !ok {
		return "", nil
	}
	i := strings.LastIndexByte(rest, '.')
	w.mu.Lock()
	defer w.mu.Unlock()
	return rest[:max(i, 0)], w.sites[rest[i+1:]]
}
