//go:build linux

package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/egress/proxy"
)

// world is what lies outside of the sandboxes of one test: names, and servers
// at made-up public addresses, which are listeners on loopback in truth.
type world struct {
	t *testing.T
	// own are the addresses of the machine's interfaces.
	own []netip.Addr
	// authority is the certificate of all TLS servers, in PEM.
	authority []byte
	resolver  *net.Resolver
	// inEarnest has the daemon dial by itself, so that its addresses are real.
	inEarnest bool

	mu sync.Mutex
	// zone holds the addresses of names. Each list answers one lookup, the
	// last of them all that follow.
	zone map[string][][]string
	// at says where a server really listens.
	at      map[string]string
	lookups map[string]int
	// forbidden are the addresses to which no sandbox is ever to get, strays
	// the connections that went there, or where nothing is at all.
	forbidden, strays []string
}

// The hosts of the world. All are allowed but the last one and the addresses.
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
	w := &world{t: t, zone: map[string][][]string{}, own: []netip.Addr{netip.MustParseAddr("11.0.0.99")}, at: map[string]string{}, lookups: map[string]int{}}
	w.serveNames()
	w.serveWeb()
	w.serveEcho()
	t.Cleanup(func() {
		if strays := w.escaped(); len(strays) > 0 {
			t.Errorf("ESCAPE: %v", strays)
		}
	})
	return w
}

// outward is the world as the daemon sees it.
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

// put makes a host with an address of either family, at which a listener
// serves a port.
func (w *world) put(host string, number int, port int, l net.Listener) {
	v4, v6 := fmt.Sprintf("11.0.0.%d", number), fmt.Sprintf("2a00::%d", number)
	w.name(host, []string{v4, v6})
	w.place(v4, port, l)
	w.place(v6, port, l)
}

// name gives a name its addresses: those of the first lookup, and so on.
func (w *world) name(host string, answers ...[]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.zone[host] = answers
}

func (w *world) place(address string, port int, l net.Listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[net.JoinHostPort(address, fmt.Sprint(port))] = l.Addr().String()
}

// dial connects to where a server really is.
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

// escaped returns the connections to where none is to get, and forgets them.
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// serveNames is the machine's name server.
func (w *world) serveNames() {
	w.t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			if reply := w.answer(query[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	w.t.Cleanup(func() {
		conn.Close()
		<-done
	})
	w.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer answers a query out of the zone. One lookup is a question for IPv4 and
// one for IPv6.
func (w *world) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q := m.Questions[0]
	addresses, ok := w.lookup(strings.TrimSuffix(q.Name.String(), "."), q.Type)
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		addr := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
		if addr.Is4() && q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		} else if addr.Is6() && q.Type == dnsmessage.TypeAAAA {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// lookup counts the questions and answers one.
func (w *world) lookup(name string, kind dnsmessage.Type) ([]string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := w.zone[name]
	if len(answers) == 0 {
		return nil, false
	}
	question := name + " " + kind.String()
	w.lookups[question]++
	return answers[min(w.lookups[question], len(answers))-1], true
}

// repeated returns the questions that were asked more than once.
func (w *world) repeated() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for question, times := range w.lookups {
		if times > 1 {
			list = append(list, question)
		}
	}
	return list
}
