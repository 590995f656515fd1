//go:build linux

package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress/egresstest"
	"palyra/internal/egress/proxy"
)

// world is everything outside of the sandboxes of one test: names, and servers at fictitious
// public addresses, which are listeners on loopback.
type world struct {
	t *testing.T
	// own holds the addresses of the machine's interfaces.
	own []netip.Addr
	// authority is the certificate of all TLS servers, in PEM.
	authority []byte
	zone      *egresstest.Zone
	resolver  *net.Resolver
	// inEarnest makes the daemon dial the real addresses itself.
	inEarnest bool

	mu sync.Mutex
	// at maps an address to the server's real listener.
	at map[string]string
	// forbidden lists the addresses that no sandbox may reach. strays lists the connections to
	// these addresses or to addresses without a server.
	forbidden, strays []string
}

// These are the hosts of the world. All are allowed except the last one and the addresses.
const (
	allowedHost = "allowed.example"
	gitHost     = "git.example"
	npmHost     = "npm.example"
	pypiHost    = "pypi.example"
	echoHost    = "echo.example"
	deniedHost  = "denied.example"
	literal4    = "11.0.0.66"
	literal6    = "2a00::66"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, zone: egresstest.NewZone(nil), own: []netip.Addr{netip.MustParseAddr("11.0.0.99")}, at: map[string]string{}}
	w.resolver = egresstest.NewNameServer(t, w.zone.Answer).Resolver()
	w.serveWeb()
	w.serveEcho()
	t.Cleanup(func() {
		if strays := w.escaped(); len(strays) > 0 {
			t.Errorf("ESCAPE: %v", strays)
		}
	})
	return w
}

// outward returns the world as the daemon accesses it.
func (w *world) outward() proxy.Outward {
	out := proxy.Outward{
		Resolver: w.resolver, Dial: w.dial, Roots: w.roots(),
		Interfaces: func() ([]netip.Addr, error) { return w.own, nil },
	}
	if w.inEarnest {
		out.Dial = nil
	}
	return out
}

// put adds a host with an IPv4 and an IPv6 address, on which a listener serves a port.
func (w *world) put(host string, number int, port int, l net.Listener) (addresses []string) {
	v4, v6 := fmt.Sprintf("11.0.0.%d", number), fmt.Sprintf("2a00::%d", number)
	w.zone.Set(host, v4+" "+v6)
	w.place(v4, port, l)
	w.place(v6, port, l)
	return []string{v4, v6}
}

func (w *world) place(address string, port int, l net.Listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[net.JoinHostPort(address, fmt.Sprint(port))] = l.Addr().String()
}

// dial connects to the server's real address.
func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	where, ok := w.at[address]
	if !ok || slices.Contains(w.forbidden, host) {
		w.strays = append(w.strays, address)
	}
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("nothing is at %s", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", where)
}

// escaped returns the forbidden connections since its last call.
func (w *world) escaped() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	strays := w.strays
	w.strays = nil
	return strays
}

// listen listens on loopback until the test ends.
func (w *world) listen() net.Listener {
	w.t.Helper()
	return must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
}
