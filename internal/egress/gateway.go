package egress

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Gateway holds the gateway's own listening addresses. No rule reaches them: a call with access to
// the gateway's API, its metrics or its agents' listener could act as a person or another agent. A
// nil Gateway has none. It is safe for concurrent use.
type Gateway struct {
	mu sync.RWMutex
	at []netip.AddrPort
}

// Listen adds the address of an open listener. It ignores listeners other than TCP, such as the
// socket of the local operator, because egress cannot reach them.
func (g *Gateway) Listen(at net.Addr) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return
	}
	place := tcp.AddrPort()
	place = netip.AddrPortFrom(place.Addr().Unmap().WithZone(""), place.Port())
	if !place.Addr().IsValid() { // the wildcard of both families
		place = netip.AddrPortFrom(netip.IPv6Unspecified(), place.Port())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = append(g.at, place)
}

// Listens reports whether a connection to addr would reach the gateway itself. A listener on the
// wildcard address covers all addresses of the machine: loopback and own. An address that embeds
// another is checked as both.
func (g *Gateway) Listens(addr netip.Addr, port uint16, own []netip.Addr) bool {
	if g == nil {
		return false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, a := range denoted(addr.Unmap().WithZone("")) {
		here := a.IsLoopback() || a.IsUnspecified() || slices.Contains(own, a)
		for _, l := range g.at {
			// The unspecified address of a target is loopback to most systems.
			if l.Port() == port && (l.Addr() == a || here && l.Addr().IsUnspecified() || a.IsUnspecified()) {
				return true
			}
		}
	}
	return false
}

// denoted returns the addresses that an address denotes.
func denoted(addr netip.Addr) []netip.Addr {
	if inner, ok := embedded(addr); ok {
		return []netip.Addr{addr, inner}
	}
	return []netip.Addr{addr}
}
