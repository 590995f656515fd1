//go:build linux

package attack

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// These constants number the hosts of a site: the last byte of their addresses.
const (
	goodHost = 1
	evilHost = 2
	own      = 9 // an address of the gateway's machine
)

// These are the kinds of events that a server records. Evil and forbidden always mean that the
// attacker succeeded; a row can declare further kinds (alarm).
const (
	evil        = "evil"      // a machine that no rule allows was reached
	forbidden   = "forbidden" // an allowed host received a forbidden request
	theSecret   = "secret"    // the value of a secret arrived
	placeholder = "placeholder"
	anyByte     = "any byte"
	evilName    = "the name of evil"
)

// site is the part of the world that belongs to one scene: the zone sNNNN.test with the hosts
// good and evil, and further hosts that a row names.
type site struct {
	world *world
	n     int
	zone  string
	// port is unique in the world: evil answers at every address that the gateway dials on it.
	port uint16
	// service is the port on which evil listens directly, at every address of this machine, over
	// TCP and UDP.
	service uint16
	secret  string
	// broken is the error that the source of the secret returns.
	broken error
	// stranger is set while good's certificate has an unknown issuer.
	stranger atomic.Bool
	// leaky makes good delay its answer to a correct prefix of the secret.
	leaky atomic.Bool
	// given is true once the secret has arrived at good.
	given atomic.Bool
	// visited is closed once the visitors from outside have connected.
	visited chan struct{}

	servers map[netip.AddrPort]string
	closers []func() error
	busy    sync.WaitGroup

	settled sync.Once
	failed  error

	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   map[string]int
	alarms  []string
	hits    []string

	most     atomic.Pointer[limits]
	bytes    atomic.Int64
	requests atomic.Int64
	opened   atomic.Int64
	open     atomic.Int64
}

var siteNumber atomic.Int32

// newSite starts the servers of a scene.
func (w *world) newSite(t *testing.T, token string) *site {
	t.Helper()
	n := int(siteNumber.Add(1))
	s := &site{
		world: w, n: n, zone: fmt.Sprintf("s%04d.test", n), port: uint16(20000 + n), secret: planted(token),
		servers: map[netip.AddrPort]string{}, asked: map[string]int{}, alarms: []string{evil, forbidden}, visited: make(chan struct{}),
	}
	s.most.Store(&limits{})
	s.answers = map[string][][]netip.Addr{
		"good": {{s.address(goodHost), s.address6(goodHost)}}, "evil": {{s.address(evilHost), s.address6(evilHost)}},
	}
	t.Cleanup(func() {
		w.mu.Lock()
		delete(w.sites, fmt.Sprintf("s%04d", n))
		w.mu.Unlock()
		if s.settle(); s.failed != nil {
			t.Error(s.failed)
		}
	})
	must.Do(t, s.serve())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[fmt.Sprintf("s%04d", n)] = s
	return s
}

func (s *site) address(host byte) netip.Addr {
	return netip.AddrFrom4([4]byte{11, byte(s.n >> 8), byte(s.n), host})
}

func (s *site) address6(host byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0x26, 0, 11, 11: byte(s.n >> 8), 13: byte(s.n), 15: host})
}

func (s *site) close() error {
	var err error
	for _, c := range s.closers {
		if one := c(); !errors.Is(one, net.ErrClosed) {
			err = errors.Join(err, one)
		}
	}
	s.busy.Wait()
	return err
}

// serve starts good on 443 (TLS), 80 and 8080 (HTTP, parsed in two ways) and 22 (without a
// rule), and evil on all of them.
func (s *site) serve() error {
	plain, err := s.listenEverywhere()
	if err != nil {
		return err
	}
	s.busy.Go(func() { s.each(plain, s.serveAttacker) })
	secure, err := s.listen()
	if err != nil {
		return err
	}
	s.serveTLS(secure, true)
	everywhere := fmt.Sprint("127.0.0.1:", s.service)
	s.put(evilHost, secure.Addr().String(), 443)
	s.put(evilHost, everywhere, 22, 53, 80, 8080)
	s.put(goodHost, everywhere, 22)
	if secure, err = s.listen(); err != nil {
		return err
	}
	s.serveTLS(secure, false)
	s.put(goodHost, secure.Addr().String(), 443)
	for port, chunked := range map[uint16]bool{80: true, 8080: false} {
		l, err := s.listen()
		if err != nil {
			return err
		}
		s.busy.Go(func() { s.each(l, func(c net.Conn) { s.serveLeniently(c, chunked) }) })
		s.put(goodHost, l.Addr().String(), port)
	}
	return nil
}

// put sets the real address of the server at some ports of a host.
func (s *site) put(host byte, really string, ports ...uint16) {
	for _, p := range ports {
		for _, addr := range []netip.Addr{s.address(host), s.address6(host)} {
			s.servers[netip.AddrPortFrom(addr, p)] = really
		}
	}
}

// listen listens on a loopback address that no other site has. On 127.0.0.1, a client might
// connect that expects the former listener of a reused port.
func (s *site) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.1:0", 64+s.n>>8, s.n&0xff))
	if err == nil {
		s.closers = append(s.closers, l.Close)
	}
	return l, err
}

// listenEverywhere listens by TCP and UDP at one port of this machine, as an unprotected service of
// the host does. The port is outside of the kernel's ephemeral range, so that no client connects by
// mistake.
func (s *site) listenEverywhere() (net.Listener, error) {
	var last error
	for range 100 {
		s.service = uint16(10000 + rand.IntN(10000))
		l, err := net.Listen("tcp", fmt.Sprint(":", s.service))
		if err != nil {
			last = err
			continue
		}
		packets, err := net.ListenPacket("udp", fmt.Sprint(":", s.service))
		if err != nil {
			last = errors.Join(err, l.Close())
			continue
		}
		s.closers = append(s.closers, l.Close, packets.Close)
		s.busy.Go(func() {
			buffer := make([]byte, 2048)
			for {
				n, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				s.hit(evil, fmt.Sprintf("a datagram of %d bytes", n))
				_, _ = packets.WriteTo([]byte(canary), from)
			}
		})
		return l, nil
	}
	return nil, last
}

// each serves connections until the listener is closed; then it ends them.
func (s *site) each(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.busy.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience / 2))
			serve(conn)
		})
	}
}

// serveTLS serves HTTP/1.1 and HTTP/2.
func (s *site) serveTLS(l net.Listener, isEvil bool) {
	cfg := &tls.Config{NextProtos: []string{"h2", "http/1.1"}, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.world.certificate(h.ServerName, h.Conn.LocalAddr(), s.stranger.Load())
	}}
	server := &http.Server{
		TLSConfig: cfg, Handler: s.web(isEvil), ErrorLog: quiet, ReadTimeout: patience / 2,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.busy.Add(1)
				if isEvil {
					s.hit(evil, "a connection for TLS")
				}
			case http.StateClosed, http.StateHijacked:
				s.busy.Done()
			default:
			}
		},
	}
	if !isEvil {
		l = watching{l, s}
	}
	s.busy.Go(func() { _ = server.ServeTLS(l, "", "") })
}

// route sets the real address of the server at an address of the site.
func (s *site) route(where netip.AddrPort) (string, bool) {
	if to, ok := s.servers[where]; ok {
		return to, true
	}
	if where.Port() == s.port && (where.Addr() == s.address(goodHost) || where.Addr() == s.address6(goodHost)) {
		return s.servers[netip.AddrPortFrom(where.Addr(), 80)], true
	}
	return fmt.Sprint("127.0.0.1:", s.service), where.Port() == s.port || where.Port() == s.service
}

// names sets the addresses of a label: the first answer, the second, and so on.
func (s *site) names(label string, answers ...[]netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[label] = answers
}

// answer returns the next answer for a label and a record type; the last answer repeats.
func (s *site) answer(label string, kind uint16) []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.answers[label]
	if len(list) == 0 {
		return nil
	}
	key := fmt.Sprint(label, kind)
	n := min(s.asked[key], len(list)-1)
	s.asked[key]++
	return list[n]
}

// hit records data that an attacker wants to see.
func (s *site) hit(kind, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.alarms, kind) && len(s.hits) < 20 {
		s.hits = append(s.hits, kind+": "+what)
	}
}

// alarm makes the site record further kinds of events.
func (s *site) alarm(kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms = append(s.alarms, kinds...)
}

// limits bound the data that may arrive at good; zero means no limit.
type limits struct{ bytes, requests, connections, concurrent int64 }

func (s *site) reached() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.hits, "; ")
}

// settle waits until the sent data has arrived.
func (s *site) settle() { s.settled.Do(func() { s.failed = s.close() }) }
