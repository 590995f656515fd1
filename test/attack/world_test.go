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

// world is the internet of these tests: a name server, and servers at addresses
// that are made up. Nothing that is sent to them leaves the machine, as the
// gateway is given a dial function that knows where they really are.
type world struct {
	names *egresstest.NameServer
	// careless is a proxy that checks nothing, for controls.
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

// outward is the world as the gateway sees it.
func (w *world) outward() proxy.Outward {
	roots := x509.NewCertPool()
	roots.AddCert(w.authority.Cert)
	return proxy.Outward{Resolver: w.names.Resolver(), Interfaces: w.interfaces, Dial: w.dial, Roots: roots}
}

// certificate is that of a name, or of no name, and of where its server really
// is. A stranger's is signed by itself.
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

// interfaces are the machine's addresses, as far as the gateway knows.
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

// route says where a server really is.
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

// otherResolver is one that a program might know by itself.
const otherResolver = "8.8.8.8:53"

// lookup finds what a name stands for: the records of one site.
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

// zone splits a name into what stands before a site's zone, and the site.
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
