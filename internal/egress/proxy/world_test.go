package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/web"
)

// world is a proxy with fictitious hosts around it. Their addresses are public ones that are
// never dialled: every connection goes to a server of the test.
type world struct {
	t         testing.TB
	proxy     *Proxy
	authority *web.Authority
	roots     *x509.CertPool
	ports     *fakeListener
	http      net.Listener
	socks     net.Listener
	names     net.PacketConn
	end       func() error
	// over is closed at the end of the test.
	over chan struct{}

	mu        sync.Mutex
	addresses map[string]netip.Addr
	servers   map[string]string
	dialled   []string
	asked     []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	authority := must.Get(web.NewAuthority())(t)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Bundle(nil)) {
		t.Fatal("the authority has no certificate")
	}
	return &world{t: t, authority: authority, roots: roots, addresses: map[string]netip.Addr{}, servers: map[string]string{}, over: make(chan struct{})}
}

// host assigns an address to a name, and serves its port with serve.
func (w *world) host(target string, serve func(net.Conn)) {
	w.t.Helper()
	name, port, err := net.SplitHostPort(target)
	must.Do(w.t, err)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	w.t.Cleanup(func() { l.Close(); serving.Wait() })
	w.mu.Lock()
	defer w.mu.Unlock()
	addr, err := netip.ParseAddr(name)
	if err != nil {
		addr = w.address(name)
	}
	w.servers[netip.AddrPortFrom(addr, mustPort(w.t, port)).String()] = l.Addr().String()
}

func (w *world) address(name string) netip.Addr {
	if _, known := w.addresses[name]; !known {
		w.addresses[name] = netip.AddrFrom4([4]byte{11, 0, 0, byte(len(w.addresses) + 1)})
	}
	return w.addresses[name]
}

func mustPort(t testing.TB, s string) uint16 {
	t.Helper()
	return must.Get(egress.ParsePort(s))(t)
}

// LookupNetIP implements a resolver with the hosts of the world.
func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, strings.TrimSuffix(host, "."))
	addr, ok := w.addresses[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{addr}, nil
}

// lookedUp reports whether the resolver was asked for a name.
func (w *world) lookedUp(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.asked, name)
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	real, ok := w.servers[address]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	return new(net.Dialer).DialContext(ctx, network, real)
}

func grantOf(t testing.TB, rules ...string) egress.Reach {
	t.Helper()
	allow := must.Get(egress.ParseRules(rules))(t)
	return egress.Reach{Rules: egress.Rules{Allow: allow}}
}

// serve starts a proxy.
func (w *world) serve(g egress.Reach) {
	w.t.Helper()
	proxy := must.Get(New(g, Outward{
		Resolver: w, Dial: w.dial, Roots: w.roots.Clone(),
		Interfaces: func() ([]netip.Addr, error) { return nil, nil },
	}))(w.t)
	w.proxy = proxy
	w.ports = newFakeListener(w.t)
	w.http, w.socks = listen(w.t), listen(w.t)
	w.names = must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(w.t)
	ctx, cancel := context.WithCancel(context.Background())
	listeners := Listeners{Names: w.names, HTTP: w.http, SOCKS: w.socks, Ports: []net.Listener{w.ports}}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ctx, listeners) }()
	w.end = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	w.t.Cleanup(func() {
		close(w.over)
		if err := w.end(); err != nil {
			w.t.Errorf("Serve: %v", err)
		}
		proxy.Close()
	})
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
}

// ledger ends the proxy and returns its records of all legs except names.
func (w *world) ledger() []tool.Connection {
	w.t.Helper()
	must.Do(w.t, w.end())
	list, missed := w.proxy.Connections()
	if missed != 0 {
		w.t.Errorf("%d connections are missed", missed)
	}
	if later, _ := w.proxy.Connections(); !slices.Equal(list, later) {
		w.t.Errorf("a connection never ended: %+v, later %+v", list, later)
	}
	var kept []tool.Connection
	for _, c := range list {
		if c.Leg != egress.LegName {
			kept = append(kept, c)
		}
	}
	return kept
}

// only returns the single connection in the log.
func (w *world) only() tool.Connection {
	w.t.Helper()
	list := w.ledger()
	if len(list) != 1 {
		w.t.Fatalf("the ledger has %d connections: %+v", len(list), list)
	}
	return list[0]
}

// legs are the ways to connect to a target by name from inside. An error is the failure of the
// handshake with the proxy.
var legs = map[string]func(*world, string) (net.Conn, error){
	egress.LegTransparent: (*world).transparent,
	egress.LegConnect:     (*world).connect,
	egress.LegSOCKS:       (*world).socks5,
}

// must fails the test on an error, and returns the connection with a deadline.
func (w *world) must(conn net.Conn, err error) net.Conn {
	w.t.Helper()
	must.Do(w.t, err)
	return withDeadline(w.t, conn)
}

// transparent connects like a program without proxy settings: it resolves the name and
// connects.
func (w *world) transparent(target string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		if addr, err = w.lookup(name); err != nil {
			return nil, err
		}
	}
	return w.ports.dial(netip.AddrPortFrom(addr, mustPort(w.t, port)))
}

// lookup queries the proxy's name service for an IPv4 address.
func (w *world) lookup(name string) (netip.Addr, error) {
	asked, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return netip.Addr{}, err
	}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: asked, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	if err != nil {
		return netip.Addr{}, err
	}
	conn, err := net.Dial("udp", w.names.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	if _, err := conn.Write(packed); err != nil {
		return netip.Addr{}, err
	}
	reply := make([]byte, 1500)
	n, err := conn.Read(reply)
	if err != nil {
		return netip.Addr{}, err
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(reply[:n]); err != nil {
		return netip.Addr{}, err
	}
	if len(answer.Answers) == 0 {
		return netip.Addr{}, fmt.Errorf("%s: %v", name, answer.RCode)
	}
	a, ok := answer.Answers[0].Body.(*dnsmessage.AResource)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%s: answer %v", name, answer.Answers[0])
	}
	return netip.AddrFrom4(a.A), nil
}

// connect connects through the HTTP proxy. Its error contains the answer.
func (w *world) connect(target string) (net.Conn, error) {
	conn, err := net.Dial("tcp", w.http.Addr().String())
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return nil, err
	}
	head := make([]byte, len(established))
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	if string(head) == string(established) {
		return conn, nil
	}
	rest, err := io.ReadAll(conn)
	conn.Close()
	return nil, errors.Join(fmt.Errorf("%s%s", head, rest), err)
}

// socks5 connects through the SOCKS proxy. Its error contains the reply.
func (w *world) socks5(target string) (net.Conn, error) {
	name, number, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", w.socks.Addr().String())
	if err != nil {
		return nil, err
	}
	port := mustPort(w.t, number)
	request := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}, name...)
	if _, err := conn.Write(append(request, byte(port>>8), byte(port))); err != nil {
		return nil, err
	}
	reply := make([]byte, 12)
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, err
	}
	if reply[3] != 0 {
		conn.Close()
		return nil, fmt.Errorf("SOCKS reply %d", reply[3])
	}
	return conn, nil
}

// withDeadline makes reads and writes of a test fail rather than hang.
func withDeadline(t testing.TB, conn net.Conn) net.Conn {
	t.Helper()
	must.Do(t, conn.SetDeadline(time.Now().Add(must.Patience)))
	return conn
}
