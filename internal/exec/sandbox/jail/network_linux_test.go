package jail

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox/inside"
)

// The helper and the egress package have the same limits.
func TestBoundsOfNetworks(t *testing.T) {
	t.Parallel()
	if inside.MaxPorts != egress.MaxPorts {
		t.Errorf("the helper takes %d ports, a grant may have %d", inside.MaxPorts, egress.MaxPorts)
	}
	ports := make([]uint16, inside.MaxPorts)
	for i := range ports {
		ports[i] = uint16(10_000 + i)
	}
	most := inside.Network{Ports: ports}
	if !most.Valid() || len(most.Listeners()) != inside.MaxListeners {
		t.Errorf("%d ports have %d listeners", len(ports), len(most.Listeners()))
	}
	for name, bad := range map[string][]uint16{
		"too many": append(slices.Clone(ports), 60_000), "zero": {0}, "twice": {1, 1}, "order": {2, 1},
	} {
		if (inside.Network{Ports: bad}).Valid() {
			t.Errorf("%s is taken", name)
		}
	}
}

// opened returns n new file descriptors, whose closing the test observes.
func opened(t *testing.T, n int) []int {
	t.Helper()
	fds := make([]int, n)
	for i := range fds {
		fds[i] = must.Get(unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	}
	return fds
}

// count returns the number of open file descriptors of this process.
func count(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// A message with too many file descriptors is refused, and all of them are closed.
//
// Not parallel: it counts the open file descriptors of the process.
func TestReceiveBounds(t *testing.T) {
	for _, c := range []struct {
		sent, most   int
		failed, fine bool
	}{
		{0, 0, false, true}, {1, 1, false, true}, {inside.MaxListeners, inside.MaxListeners, false, true},
		{1, 0, false, false}, {2, 1, false, false}, {inside.MaxListeners + 1, inside.MaxListeners, false, false},
		{1, 1, true, false},
	} {
		mine, theirs, err := controlPair()
		must.Do(t, err)
		before := count(t)
		report := inside.Report{Captured: []string{inside.IPv4}}
		if c.failed {
			report.Failed = "anything"
		}
		fds := opened(t, c.sent)
		must.Do(t, unix.Sendmsg(int(theirs.Fd()), inside.Encode(&report), unix.UnixRights(fds...), nil, 0))
		closeDescriptors(fds)
		got, received, err := receive(mine, c.most)
		if (err == nil) != c.fine || !c.fine && received != nil || c.fine && (len(received) != c.sent || len(got.Captured) != 1) {
			t.Errorf("%d of %d: %d came, %v", c.sent, c.most, len(received), err)
		}
		closeDescriptors(received)
		if after := count(t); after != before {
			t.Errorf("%d of %d: %d descriptors stay open", c.sent, c.most, after-before)
		}
		mine.Close()
		theirs.Close()
	}
}

// The proxy serves only if all expected listeners arrive from the helper.
//
// Not parallel: it counts the open file descriptors of the process.
func TestListenersAreChecked(t *testing.T) {
	socket := func(network string) int {
		var f *os.File
		var err error
		if strings.HasPrefix(network, "udp") {
			var conn *net.UDPConn
			if conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err == nil {
				defer conn.Close()
				f, err = conn.File()
			}
		} else {
			var l *net.TCPListener
			if l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err == nil {
				defer l.Close()
				f, err = l.File()
			}
		}
		must.Do(t, err)
		defer f.Close()
		return must.Get(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
	}
	before := count(t)
	for name, fds := range map[string]func() []int{
		"none":        func() []int { return nil },
		"too few":     func() []int { return opened(t, 3) },
		"too many":    func() []int { return opened(t, 5) },
		"files":       func() []int { return opened(t, 4) },
		"other ports": func() []int { return []int{socket("udp"), socket("tcp"), socket("tcp"), socket("tcp")} },
		"other kinds": func() []int { return []int{socket("tcp"), socket("tcp"), socket("tcp"), socket("udp")} },
	} {
		if _, _, err := listeners(inside.Network{}, fds()); err == nil {
			t.Errorf("%s: taken", name)
		}
		if after := count(t); after != before {
			t.Errorf("%s: %d descriptors stay open", name, after-before)
			before = after
		}
	}
	for _, c := range []struct {
		network, at string
		want        inside.Listener
		fine        bool
	}{
		{"tcp", "127.0.0.1:3128", inside.Listener{Port: 3128}, true},
		{"udp", "127.0.0.1:53", inside.Listener{Port: 53, UDP: true}, true},
		{"tcp", "[::]:443", inside.Listener{Port: 443, Everywhere: true}, true},
		{"tcp", "0.0.0.0:443", inside.Listener{Port: 443, Everywhere: true}, true},
		{"tcp", "[::]:443", inside.Listener{Port: 443}, false},
		{"tcp", "127.0.0.1:443", inside.Listener{Port: 443, Everywhere: true}, false},
		{"tcp", "[::]:444", inside.Listener{Port: 443, Everywhere: true}, false},
		{"udp", "127.0.0.1:53", inside.Listener{Port: 53}, false},
	} {
		var addr net.Addr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.at))
		if c.network == "udp" {
			addr = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.at))
		}
		if err := listensAt(addr, c.want); (err == nil) != c.fine {
			t.Errorf("%s %s as %+v: %v", c.network, c.at, c.want, err)
		}
	}
}
